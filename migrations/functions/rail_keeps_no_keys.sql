-- rail_keeps_no_keys(outbox_id uuid) -> boolean
--   Whether the rail of the instruction executes a key as often as it is sent, by the
--   profile in force or by one that a send was made under: resend_on_unknown NEVER.
-- reads:   payment_outbox_attempts, payment_rails, payment_rail_profiles, and what
--          rules_of_sends reads.   locks: nothing.
-- called by: executed_twice, record_late_outcome.
CREATE OR REPLACE FUNCTION {cell}.rail_keeps_no_keys(outbox_id uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT EXISTS (
    SELECT FROM (
      SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no LIMIT 1) a
    JOIN {cell}.payment_rails r ON r.rail_type = a.rail_type
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    WHERE coalesce(p.profile ->> 'resend_on_unknown', 'NEVER') = 'NEVER'
      OR {cell}.rules_of_sends($1, r.profile_version) @> '[{"resend_on_unknown": "NEVER"}]')
$$;
