-- required_fields() -> jsonb
--   The fields that each rail requires in a payload, by its profile in force: an object of arrays
--   of dotted paths, without rails that require none. They are the fields that its checks cover and
--   that are not optional, and those of which requests to the rail are built.
-- reads:   payment_rails, payment_rail_profiles.   locks: nothing.
-- called by: refresh_outbox_rules.
CREATE OR REPLACE FUNCTION {cell}.required_fields() RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce(jsonb_object_agg(n.rail_type, n.paths), '{}')
  FROM (
    SELECT r.rail_type, jsonb_agg(DISTINCT f.path COLLATE "C" ORDER BY f.path COLLATE "C") AS paths
    FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    CROSS JOIN LATERAL (
      SELECT c.rule ->> 'field' AS path
      FROM jsonb_path_query(p.profile, 'lax $.checks.fields[*] ? (!(@.optional == true))', '{}', true) AS c(rule)
      UNION ALL
      SELECT c.path #>> '{}'
      FROM jsonb_path_query(p.profile, 'strict $.checks.required[*]', '{}', true) AS c(path)) f
    WHERE f.path COLLATE "C" <> ''
    GROUP BY r.rail_type) n
$$;
