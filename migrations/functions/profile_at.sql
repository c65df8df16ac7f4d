-- profile_at(rail_type text, at timestamptz) -> integer
--   The version of a rail's profile that was in force at a time; the first version if the time is
--   earlier.
-- reads:   payment_rail_profiles.   locks: nothing.
-- called by: rules_of_sends, rules_while_suspended.
CREATE OR REPLACE FUNCTION {cell}.profile_at(rail_type text, at timestamptz) RETURNS integer
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce(max(p.version), 1)
  FROM {cell}.payment_rail_profiles p
  WHERE p.rail_type = $1 AND p.applied_at <= $2
$$;
