-- server_timeline() -> bigint
--   The timeline of the write-ahead log that this server writes; null on a standby.
-- reads, writes, locks: nothing.   called by: migration, owner's functions.
CREATE OR REPLACE FUNCTION {cell}.server_timeline() RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE WHEN NOT pg_is_in_recovery()
    THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint END
$$;
