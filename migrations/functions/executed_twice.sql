-- executed_twice(outbox_id uuid, after_no integer) -> boolean
--   Whether two sends of an instruction were executed, each by its own answer or by what
--   was told while it was out, on a rail that executes a key as often as it is sent
--   (resend_on_unknown NEVER), and one of the two came after the row after_no.
--   payment.History has the same rule.
-- reads:   payment_outbox_attempts, and what rail_keeps_no_keys reads.   locks: nothing.
-- called by: record_late_outcome, answer_open_claim.
CREATE OR REPLACE FUNCTION {cell}.executed_twice(outbox_id uuid, after_no integer) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce(count(DISTINCT e.answers_attempt_no) > 1 AND max(e.attempt_no) > $2, false) AND {cell}.rail_keeps_no_keys($1)
  FROM {cell}.payment_outbox_attempts e
  JOIN {cell}.payment_outbox_attempts s ON s.outbox_id = $1 AND s.attempt_no = e.answers_attempt_no AND s.state = 'DISPATCHING'
  WHERE e.outbox_id = $1 AND (e.state = 'DISPATCHED' OR e.state = 'LATE_OUTCOME' AND e.result = 'EXECUTED')
$$;
