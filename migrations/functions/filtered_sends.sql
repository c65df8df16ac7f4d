-- filtered_sends(outbox_id uuid) -> bigint
--   How many sends of an instruction were answered by a refusal of our credentials or route,
--   where what filters the answers may stand in front of a bank that has refused, or executed:
--   where the profile in force, or that of the claim, says resend_on_unknown SAME_KEY and not
--   refuses_before_processing. Where the rail keeps no keys such an answer is UNKNOWN, unless
--   it proves more. A send that the rail refused while it was out is counted by sends_of.
--   payment.History has the same rule.
-- reads:   payment_outbox_attempts, payment_rails, payment_rail_profiles.   locks: nothing.
-- called by: refusal_is_whole, record_late_outcome.
CREATE OR REPLACE FUNCTION {cell}.filtered_sends(outbox_id uuid) RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH a AS MATERIALIZED (
    SELECT t.attempt_no, t.state, t.answers_attempt_no, t.result, t.rail_type, t.profile_version
    FROM {cell}.payment_outbox_attempts t
    WHERE t.outbox_id = $1
  )
  SELECT count(*)
  FROM a s
  WHERE (s.state = 'DISPATCHING'
        AND (s.attempt_no IN (SELECT f.answers_attempt_no FROM a f WHERE f.result = 'REFUSED_RAIL')) IS TRUE
        AND (s.attempt_no IN (SELECT r.answers_attempt_no FROM a r WHERE r.result = 'REFUSED')) IS NOT TRUE
      -- One that a restore forgot.
      OR s.state = 'LATE_OUTCOME' AND s.answers_attempt_no IS NULL AND s.result = 'REFUSED_RAIL')
    AND EXISTS (
      SELECT FROM {cell}.payment_rail_profiles p
      WHERE p.rail_type = s.rail_type
        AND (p.version = s.profile_version OR p.version = (SELECT r.profile_version FROM {cell}.payment_rails r WHERE r.rail_type = s.rail_type))
        AND p.profile ->> 'resend_on_unknown' = 'SAME_KEY'
        AND (p.profile ->> 'refuses_before_processing')::boolean IS NOT TRUE)
$$;
