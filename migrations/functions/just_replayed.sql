-- just_replayed(outbox_id uuid) -> boolean
--   Whether an operator's replay is the latest news of the instruction, and not older than 15 minutes, which is as old
--   as the rail's "no such payment" may be that allows a replay (inquiry_said_not_executed): the two together bound
--   how old that word is when it is sent. Later the rail may have got the earlier send, so that the rail is asked
--   again. Since the replay the instruction was not sent;
--   it was not claimed before the time at which a restore was noticed that may have forgotten a
--   send; there was no evidence of an earlier send other than refusals; and the profile by which
--   the replay was allowed is still in force. The row records the version of that profile. Times
--   would not do: a clock may have been set back, and a profile may be committed during the replay. For the same
--   reason a replay of a time to come has no age, and does not count.
-- reads:   payment_outbox_attempts, payment_rails, payment_rail_profiles, and what may_be_forgotten_until reads.
--          locks: nothing.
-- called by: executor, for the claim of a send whose outcome is unknown.
CREATE OR REPLACE FUNCTION {cell}.just_replayed(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT a.state = 'REPLAYED'
        AND a.completed_at BETWEEN clock_timestamp() - interval '15 minutes' AND clock_timestamp() AND CASE WHEN a.profile_version IS NOT NULL
        THEN a.profile_version = (SELECT r.profile_version FROM {cell}.payment_rails r WHERE r.rail_type = a.rail_type)
        -- Older rows do not record the version.
        ELSE NOT EXISTS (
          SELECT FROM {cell}.payment_rail_profiles p WHERE p.rail_type = a.rail_type
            AND p.applied_at > a.created_at) END
        -- If the answer to this claim proves that nothing left, the old server may still have sent
        -- the instruction again.
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
