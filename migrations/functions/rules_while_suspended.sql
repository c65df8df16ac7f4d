-- rules_while_suspended() -> setof record (rail_type text, rules jsonb)
--   For each rail, while a suspension is open: the rules about keys (key_rules; null if there are
--   none) of the versions of its profile, other than the one in force, that were in force since the
--   time from which rows may be missing. Sends that may be forgotten were made under them. Returns
--   no rows while no suspension is open.
-- reads:   payment_rails, payment_rail_profiles, payment_outbox_suspensions.   locks: nothing.
-- called by: executor, when it reads the rails: a lane continues under the strictest of them; inquire_payment.
CREATE OR REPLACE FUNCTION {cell}.rules_while_suspended(OUT rail_type text, OUT rules jsonb) RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT r.rail_type, {cell}.key_rules(r.rail_type, {cell}.profile_at(r.rail_type, open.since), r.profile_version,
    false)
  FROM {cell}.payment_rails r
  CROSS JOIN (
    SELECT min(s.known_until) AS since FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL) open
  WHERE r.profile_version IS NOT NULL AND open.since IS NOT NULL
$$;
