-- not_found_alone(outbox_id uuid, settled_attempt_no integer) -> boolean
--   Of an instruction whose outcome is known: whether the rail's "no such payment" is
--   all that says that some send of it, other than the one just settled, was not
--   executed. That allows a re-send of the same key, which takes the place of a send
--   that is still on its way, and no other end. What was sent before the replay of what
--   had ended was settled by that end; a replay of what was parked as unknown went by
--   such a word.
-- reads:   payment_outbox_attempts, and what outbox_unsettled_send reads.   locks: nothing.
-- called by: executor, for the claim of a send and to end what has expired;
--          cancel_payment, record_late_outcome. payment.History has the same rule.
CREATE OR REPLACE FUNCTION {cell}.not_found_alone(outbox_id uuid, settled_attempt_no integer) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT {cell}.outbox_unsettled_send($1, $2, coalesce((
    SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state = 'REPLAYED' AND (
      SELECT b.state = 'PARKED' AND b.outcome_unknown FROM {cell}.payment_outbox_attempts b
      WHERE b.outbox_id = $1 AND b.attempt_no < a.attempt_no AND b.state <> 'LATE_OUTCOME'
      ORDER BY b.attempt_no DESC LIMIT 1) IS NOT TRUE), 0))
$$;
