-- not_found_alone(outbox_id uuid) -> boolean
--   Whether the rail's "no such payment" is all that says that the instruction's last
--   send was not executed. That allows a re-send of the same key, which takes the place
--   of a send that is still on its way, and no other end. What was sent before the replay
--   of what had ended was settled by that end; a replay of what was parked went by such a
--   word.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: executor, to end what has expired, and cancel_payment.
CREATE OR REPLACE FUNCTION {cell}.not_found_alone(outbox_id uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce((
    SELECT CASE a.state WHEN 'REPLAYED' THEN (
        SELECT b.state = 'PARKED' AND b.outcome_unknown FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = $1 AND b.attempt_no < a.attempt_no AND b.state <> 'LATE_OUTCOME' ORDER BY b.attempt_no DESC LIMIT 1)
      ELSE a.result = 'NOT_FOUND' END
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND (a.state = 'REPLAYED' OR a.answers_attempt_no IS NOT NULL AND a.state <> 'LATE_OUTCOME'
      AND coalesce(a.result, '') <> ALL (ARRAY[{left_nothing_results}]))
    ORDER BY a.attempt_no DESC
    LIMIT 1), false)
$$;
