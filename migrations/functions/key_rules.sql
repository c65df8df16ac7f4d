-- key_rules(rail_type text, from_version integer, before_version integer, unknown boolean) -> jsonb
--   The rules about keys in some versions of a rail's profile: an array of objects with acceptance,
--   resend_on_unknown, key_window and answer_covers_key, without duplicates. If a version is
--   unknown, the rules of a rail that remembers no key are included. NULL if there are no rules.
-- reads:   payment_rail_profiles.   locks: nothing.
-- called by: rules_of_sends, rules_while_suspended.
CREATE OR REPLACE FUNCTION {cell}.key_rules(rail_type text, from_version integer, before_version integer,
  unknown boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT jsonb_agg(DISTINCT jsonb_build_object(
      'acceptance', coalesce(p.profile ->> 'acceptance', 'FINAL'),
      'resend_on_unknown', coalesce(p.profile ->> 'resend_on_unknown', 'NEVER'),
      'key_window', coalesce(p.profile ->> 'key_window', '0s'),
      'answer_covers_key', coalesce((p.profile ->> 'answer_covers_key')::boolean, false)))
    FROM (
      SELECT p.profile FROM {cell}.payment_rail_profiles p
      WHERE p.rail_type = $1 AND p.version >= $2 AND p.version < $3
      UNION ALL
      SELECT '{"acceptance": "PROVISIONAL"}' WHERE $4) p);
END
$$;
