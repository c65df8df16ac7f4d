-- judged_to(outbox_id uuid) -> integer
--   The number of the last row there was when an operator last recorded that the payment
--   was not executed; 0 if none did. Evidence of an execution that was stored by then is
--   news when it is told again: an operator has judged it to be wrong.
-- reads:   payment_outbox_attempts, payment_operator_log.   locks: nothing.
-- called by: record_late_outcome, refused_and_executed. payment.History has it as JudgedTo.
CREATE OR REPLACE FUNCTION {cell}.judged_to(outbox_id uuid) RETURNS integer
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce(max(a.attempt_no), 0)
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.created_at <= (
    SELECT max(l.acted_at) FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = $1 AND l.act = 'RESOLVE' AND NOT (l.detail ->> 'executed')::boolean)
$$;
