-- unsettled_contradiction(outbox_id uuid) -> integer
--   The number of the last row of an instruction that contradicts what was said before, if no operator
--   has settled it by a RESOLVE since; else null.
-- reads:   payment_outbox_contradictions, payment_operator_log.   locks: nothing.
-- called by: triage_dead_letter, resolve_payment.
CREATE OR REPLACE FUNCTION {cell}.unsettled_contradiction(outbox_id uuid) RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT max(c.attempt_no) FROM {cell}.payment_outbox_contradictions c
    WHERE c.outbox_id = $1 AND NOT EXISTS (
      SELECT FROM {cell}.payment_operator_log l
      WHERE l.outbox_id = c.outbox_id AND l.act = 'RESOLVE'
        -- The clocks of two servers may differ.
        AND (l.acted_at >= c.opened_at - interval '1 minute' OR l.detail ->> 'letter' = 'CONFLICT')));
END
$$;
