-- rail_keeps_one_outcome(outbox_id uuid) -> boolean
--   Whether an answer to one send of the instruction covers all of its sends (answer_covers_key),
--   by the profile in force and by every profile under which it was sent. It does not cover a send
--   that a restore may have forgotten if the rail may no longer remember its key, by the part of
--   the key window in which a key is sent again (payment.Policy.MayResend).
-- reads:   payment_outbox_attempts, payment_rails, payment_rail_profiles, and what
--          rules_of_sends, forgotten_since and rail_knows_keys_for read.   locks: nothing.
-- called by: refusal_covers_all_sends, answer_open_claim. payment.Policy.Decide implements the same rule.
CREATE OR REPLACE FUNCTION {cell}.rail_keeps_one_outcome(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT (p.profile ->> 'answer_covers_key')::boolean
        AND ({cell}.rules_of_sends($1) @> '[{"answer_covers_key": false}]') IS NOT TRUE
      FROM (
        SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no LIMIT 1) a
      JOIN {cell}.payment_rails r ON r.rail_type = a.rail_type
      JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version), false)
      AND (
        SELECT f.since IS NULL OR f.since <= clock_timestamp()
          AND f.since > clock_timestamp() - (w.known - least(w.known / 10, interval '5 minutes'))
        FROM (SELECT {cell}.forgotten_since($1) AS since) f
        LEFT JOIN LATERAL (SELECT {cell}.rail_knows_keys_for($1) AS known) w ON f.since IS NOT NULL));
END
$$;
