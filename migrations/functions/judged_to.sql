-- judged_to(outbox_id uuid, executed boolean) -> integer
--   The number of the last row that existed when an operator last recorded that the payment was
--   executed, or that it was not; 0 if no operator did. Statements of the rail up to that row that
--   contradict the operator count as wrong: a repeated report of an execution is new evidence, and
--   an earlier execution or refusal does not contradict later evidence.
-- reads:   payment_outbox_attempts, payment_operator_log.   locks: nothing.
-- called by: record_late_outcome, refused_and_executed. In payment.History it is JudgedTo
-- and, for executed, JudgedExecutedTo.
CREATE OR REPLACE FUNCTION {cell}.judged_to(outbox_id uuid, executed boolean) RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce(max(a.attempt_no), 0)
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.created_at <= (
      SELECT max(l.acted_at) FROM {cell}.payment_operator_log l
      WHERE l.outbox_id = $1 AND l.act = 'RESOLVE' AND (l.detail ->> 'executed')::boolean = $2));
END
$$;
