-- rail_busy_since(outbox_id uuid) -> timestamptz
--   The time at which the rail first reported, in its current run of such answers, that it is busy
--   (REFUSED_LATER); null if there is no such run. Calls that did not leave, and refusals of our
--   credentials or route, do not end a run; any other row does.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: executor, for a claim that is not the first.
CREATE OR REPLACE FUNCTION {cell}.rail_busy_since(outbox_id uuid) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT a.completed_at
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state = 'RETRYABLE' AND a.result = 'REFUSED_LATER'
      AND a.attempt_no > coalesce((
        SELECT o.attempt_no
        FROM {cell}.payment_outbox_attempts o
        WHERE o.outbox_id = $1 AND o.state NOT IN ({claim_states}, 'LATE_OUTCOME')
          AND NOT (o.state = 'RETRYABLE' AND coalesce(o.result, '') IN ({still_busy_results}))
        ORDER BY o.attempt_no DESC
        LIMIT 1), 0)
    ORDER BY a.attempt_no
    LIMIT 1);
END
$$;
