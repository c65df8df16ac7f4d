-- judged_to(outbox_id uuid, executed boolean) -> integer
--   The number of the last row there was when an operator last recorded that the payment
--   was executed, or that it was not; 0 if none did. What the rail had said against that by
--   then is judged to be wrong: evidence of an execution is news when it is told again, and
--   neither an execution nor a refusal of before contradicts what is told later.
-- reads:   payment_outbox_attempts, payment_operator_log.   locks: nothing.
-- called by: record_late_outcome, refused_and_executed. payment.History has it as JudgedTo
-- and, of executed, JudgedExecutedTo.
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
