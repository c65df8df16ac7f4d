-- What must hold of the server before money depends on it, and who it is.
SELECT current_setting('fsync') = 'on' AS fsync,
  current_setting('full_page_writes') = 'on' AS full_page_writes,
  current_setting('synchronous_commit') <> 'off' AS synchronous_commit,
  current_setting('server_version_num')::integer AS version,
  pg_is_in_recovery() AS standby,
  (SELECT s.system_identifier FROM pg_control_system() s)::text AS system_identifier,
  CASE WHEN pg_is_in_recovery() THEN NULL
    ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint END AS timeline,
  (extract(epoch FROM clock_timestamp() - pg_postmaster_start_time()) * 1000)::bigint AS up_ms
