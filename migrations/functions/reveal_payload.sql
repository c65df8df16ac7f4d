-- reveal_payload(outbox_id uuid, reason text) -> uuid
--   Logs that the payload of an instruction is revealed to the login, and returns the act_id, with
--   which revealed_payload returns it in a later transaction. It does not return the payload itself:
--   a caller could read it and roll the row of the log back.
-- errors:  RH002 without a reason, RH010 unknown instruction, RH016 no row has its payload;
--          55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_outbox_pending, payment_outbox_attempts, payment_dead_letters,
--          and what payload_of reads.
-- writes:  payment_operator_log.   locks: nothing.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.reveal_payload(outbox_id uuid, reason text) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  act CONSTANT uuid := {cell}.uuidv7();
BEGIN
  PERFORM {cell}.require_reason(reveal_payload.reason);
  PERFORM {cell}.require_durable_commit();
  -- One that was never enqueued is not in the registry, and has a payload as well.
  IF NOT EXISTS (SELECT FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = reveal_payload.outbox_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = reveal_payload.outbox_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = reveal_payload.outbox_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_dead_letters d WHERE d.outbox_id = reveal_payload.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = format('outbox_id %s is not known to this cell',
      reveal_payload.outbox_id);
  END IF;
  IF (SELECT c.payload IS NULL FROM {cell}.payload_of(reveal_payload.outbox_id) c) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH016',
      MESSAGE = format('no row has the payload of outbox_id %s', reveal_payload.outbox_id),
      HINT = 'If the partition of its month of payment_outbox_instructions was detached, attach it again.';
  END IF;
  INSERT INTO {cell}.payment_operator_log (act_id, act, subject, outbox_id, reason)
  VALUES (act, 'REVEAL_PAYLOAD',
    coalesce({cell}.instruction_of(reveal_payload.outbox_id), reveal_payload.outbox_id::text),
    reveal_payload.outbox_id, reveal_payload.reason);
  RETURN act;
END
$$;
