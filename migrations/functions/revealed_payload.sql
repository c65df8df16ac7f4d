-- revealed_payload(act_id uuid, OUT payload jsonb, OUT headers jsonb) -> record
--   The payload and headers that an act of reveal_payload was for. The act is one of the same login,
--   at most a minute old and committed: only a transaction that has written nothing gets the payload,
--   so that the row of the log can't be rolled back after it was read.
-- errors:  RH020 there is no such act, or the transaction has written something; RH016 no row has the
--          payload any more; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_operator_log, and what payload_of reads.   writes: nothing.   locks: nothing.
-- called by: operator.
CREATE OR REPLACE FUNCTION {cell}.revealed_payload(act_id uuid, OUT payload jsonb, OUT headers jsonb) RETURNS record
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  of_payment uuid;
BEGIN
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the transaction has written something: it could still take back the row of the operator log',
      HINT = 'Commit reveal_payload first, then call revealed_payload in a transaction of its own.';
  END IF;
  SELECT l.outbox_id INTO of_payment
  FROM {cell}.payment_operator_log l
  WHERE l.act_id = revealed_payload.act_id AND l.act = 'REVEAL_PAYLOAD' AND l.actor = session_user
    AND l.acted_at > clock_timestamp() - interval '1 minute';
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the operator log has no such act of this login in the last minute',
      HINT = 'Call reveal_payload with a reason, and commit it.';
  END IF;
  SELECT c.payload, c.headers INTO revealed_payload.payload, revealed_payload.headers
  FROM {cell}.payload_of(of_payment) c;
  IF revealed_payload.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH016', MESSAGE = format('no row has the payload of outbox_id %s', of_payment),
      HINT = 'If the partition of its month of payment_outbox_instructions was detached, attach it again.';
  END IF;
END
$$;
