-- judged_executed_to(outbox_id uuid) -> integer
--   As judged_to, of the last time that an operator recorded that the payment was executed:
--   the refusals that were stored by then are judged, and contradict nothing that is told later.
-- reads:   payment_outbox_attempts, payment_operator_log.   locks: nothing.
-- called by: refused_and_executed. payment.History has it as JudgedExecutedTo.
CREATE OR REPLACE FUNCTION {cell}.judged_executed_to(outbox_id uuid) RETURNS integer
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce(max(a.attempt_no), 0)
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.created_at <= (
    SELECT max(l.acted_at) FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = $1 AND l.act = 'RESOLVE' AND (l.detail ->> 'executed')::boolean)
$$;
