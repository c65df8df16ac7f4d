-- map_server() -> text
--   Names the present start and timeline of the server, for one comparison: a map that was read under
--   another name was read before a restart, a failover or a restore. Null on a standby.
-- reads, writes, locks: nothing.   called by: confirm_map, operator, readonly, auditor.
CREATE OR REPLACE FUNCTION {cell}.map_server() RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
  SELECT c.system_identifier || '/' || {cell}.server_timeline() || '/' || pg_postmaster_start_time()
  FROM pg_control_system() c
$$;
