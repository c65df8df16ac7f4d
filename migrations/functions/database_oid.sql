-- database_oid() -> oid
--   The OID of the database of this session. A copy of a database has another one, as a database has into which a dump
--   is loaded. Tables that are loaded into a database of the same OID have other OIDs.
-- reads, writes, locks: nothing.
-- called by: timeline_accepted_at, accept_timeline, map_is_confirmed, confirm_map, refresh_outbox_rules.
CREATE OR REPLACE FUNCTION {cell}.database_oid() RETURNS oid
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT d.oid FROM pg_database d WHERE d.datname = current_database()
$$;
