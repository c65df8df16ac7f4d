-- rail_knows_keys_for(outbox_id uuid) -> interval
--   How long the rail of the instruction remembers a key, by the profile in force and by every
--   profile under which it was sent: the shortest key_window, or 0 if one of them has
--   resend_on_unknown NEVER. Two sends that are further apart may both be executed.
-- reads:   payment_outbox_attempts, payment_rails, payment_rail_profiles, and what
--          rules_of_sends reads.   locks: nothing.
-- called by: executed_twice, record_late_outcome, rail_keeps_one_outcome.
CREATE OR REPLACE FUNCTION {cell}.rail_knows_keys_for(outbox_id uuid) RETURNS interval
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT min(CASE WHEN rules.one ->> 'resend_on_unknown' = 'SAME_KEY'
        THEN coalesce((rules.one ->> 'key_window')::interval, '0s') ELSE '0s' END)
      FROM (
        SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no LIMIT 1) a
      JOIN {cell}.payment_rails r ON r.rail_type = a.rail_type
      JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
      CROSS JOIN LATERAL jsonb_array_elements(coalesce({cell}.rules_of_sends($1), '[]') || p.profile) AS rules(one)),
        '0s'));
END
$$;
