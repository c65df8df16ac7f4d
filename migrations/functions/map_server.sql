-- map_server() -> text
--   Names the present server of this cell, for one comparison: system identifier, timeline, start, and
--   how often its data was found to have gone back (server_went_back), separated by slashes. A map that
--   was read under another name was read before a restart, a failover or a restore. Null on a standby.
-- reads:   what server_went_back reads.   writes, locks: nothing.
-- called by: require_map_server, require_cell_servers, operator, readonly, auditor.
CREATE OR REPLACE FUNCTION {cell}.map_server() RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
  SELECT c.system_identifier || '/' || {cell}.server_timeline() || '/' || pg_postmaster_start_time() || '/'
    || {cell}.server_went_back()
  FROM pg_control_system() c
$$;
