-- rules_while_suspended() -> setof record (rail_type text, rules jsonb)
--   For each rail, while a suspension is open: what the versions of its profile that were
--   in force since the moment from which rows may be missing, but for the one in force, say
--   of keys (key_rules; null where there is none). Sends that may be forgotten were made
--   under them. No rows while no suspension is open.
-- reads:   payment_rails, payment_rail_profiles, payment_outbox_suspensions.   locks: nothing.
-- called by: executor, when it reads the rails: a lane goes on by the strictest of them.
CREATE OR REPLACE FUNCTION {cell}.rules_while_suspended(OUT rail_type text, OUT rules jsonb) RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT r.rail_type, {cell}.key_rules(r.rail_type, {cell}.profile_at(r.rail_type, open.since), r.profile_version, false)
  FROM {cell}.payment_rails r
  CROSS JOIN (
    SELECT min(s.known_until) AS since FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL) open
  WHERE r.profile_version IS NOT NULL AND open.since IS NOT NULL
$$;
