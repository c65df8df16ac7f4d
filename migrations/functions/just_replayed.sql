-- just_replayed(outbox_id uuid) -> boolean
--   Whether an operator's replay is the last that was learned of the instruction: since
--   then it was not sent, and not claimed before a restore was noticed that may have forgotten a send, no word of an earlier send came, but refusals, and the profile by
--   which the replay was allowed is the one in force. Which it was the row says: a clock that was put
--   back, and a profile that is committed during the replay, have other times.
-- reads:   payment_outbox_attempts, payment_rails, payment_rail_profiles, and what may_be_forgotten_until reads.   locks: nothing.
-- called by: executor, for the claim of a send whose outcome is unknown.
CREATE OR REPLACE FUNCTION {cell}.just_replayed(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT a.state = 'REPLAYED' AND CASE WHEN a.profile_version IS NOT NULL
        THEN a.profile_version = (SELECT r.profile_version FROM {cell}.payment_rails r WHERE r.rail_type = a.rail_type)
        -- Older rows do not say by which version.
        ELSE NOT EXISTS (
          SELECT FROM {cell}.payment_rail_profiles p WHERE p.rail_type = a.rail_type AND p.applied_at > a.created_at) END
        -- What nothing was left of by its answer, the old server may have sent again.
        AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts c
          WHERE c.outbox_id = $1 AND c.state = 'DISPATCHING' AND c.attempt_no > a.attempt_no
            AND c.claimed_at < (SELECT {cell}.may_be_forgotten_until($1)))
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1 AND a.state NOT IN ({claim_states})
        AND coalesce(a.result, '') <> ALL (ARRAY[{left_nothing_results}, {refusing_results}])
      ORDER BY a.attempt_no DESC
      LIMIT 1), false));
END
$$;
