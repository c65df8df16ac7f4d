-- filtered_sends(outbox_id uuid) -> bigint
--   How many sends of an instruction were answered by a refusal of our credentials or route,
--   where what filters the answers may stand in front of a bank that has refused, or executed:
--   where the rail keeps keys, and its profile does not say refuses_before_processing. Where it
--   keeps none such an answer is UNKNOWN, unless it proves more. One that the rail refused while
--   it was out is a send that is known (sends_of).
--   payment.History has the same rule.
-- reads:   payment_outbox_attempts, payment_rails, payment_rail_profiles.   locks: nothing.
-- called by: refusal_is_whole, record_late_outcome.
CREATE OR REPLACE FUNCTION {cell}.filtered_sends(outbox_id uuid) RETURNS bigint
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT CASE WHEN {cell}.rail_keeps_no_keys($1) OR (
    SELECT (p.profile ->> 'refuses_before_processing')::boolean
    FROM (
      SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no LIMIT 1) a
    JOIN {cell}.payment_rails r ON r.rail_type = a.rail_type
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version)
  THEN 0 ELSE (
    WITH a AS MATERIALIZED (
      SELECT t.attempt_no, t.state, t.answers_attempt_no, t.result FROM {cell}.payment_outbox_attempts t WHERE t.outbox_id = $1
    )
    SELECT count(*)
    FROM a s
    WHERE s.state = 'DISPATCHING'
      AND (s.attempt_no IN (SELECT f.answers_attempt_no FROM a f WHERE f.result = 'REFUSED_RAIL')) IS TRUE
      AND (s.attempt_no IN (SELECT r.answers_attempt_no FROM a r WHERE r.result = 'REFUSED')) IS NOT TRUE
  ) + (
    -- Of claims that a restore forgot.
    SELECT count(*)
    FROM {cell}.payment_outbox_attempts f
    WHERE f.outbox_id = $1 AND f.state = 'LATE_OUTCOME' AND f.answers_attempt_no IS NULL AND f.result = 'REFUSED_RAIL')
  END
$$;
