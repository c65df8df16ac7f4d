-- just_replayed(outbox_id uuid) -> boolean
--   Whether an operator's replay is the last that was learned of the instruction: since
--   then it was not sent, and no word of an earlier send came, but refusals.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: executor, for the claim of a send whose outcome is unknown.
CREATE OR REPLACE FUNCTION {cell}.just_replayed(outbox_id uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce((
    SELECT a.state = 'REPLAYED'
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state NOT IN ({claim_states})
      AND coalesce(a.result, '') <> ALL (ARRAY[{left_nothing_results}, {refusing_results}])
    ORDER BY a.attempt_no DESC
    LIMIT 1), false)
$$;
