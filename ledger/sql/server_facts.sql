-- What must hold of the server before money depends on it, who it is, and whether
-- that was accepted. The log's position is where it is flushed: a crash may take
-- back what was written beyond it. The settings of the cell say how long callers repeat calls.
SELECT current_setting('fsync') = 'on' AS fsync,
  current_setting('full_page_writes') = 'on' AS full_page_writes,
  -- Of the login: a transaction of ours has its own.
  (SELECT s.reset_val FROM pg_settings s WHERE s.name = 'synchronous_commit') <> 'off' AS synchronous_commit,
  current_setting('server_version_num')::integer AS version,
  pg_is_in_recovery() AS standby,
  i.system_identifier, i.timeline, pg_postmaster_start_time() AS started_at,
  CASE WHEN NOT pg_is_in_recovery() THEN (pg_current_wal_flush_lsn() - '0/0')::bigint END AS log_position,
  clock_timestamp() AS now,
  {cell}.timeline_accepted_at(i.system_identifier, i.timeline) AS accepted_at
FROM (
  SELECT (SELECT s.system_identifier FROM pg_control_system() s)::text AS system_identifier,
    CASE WHEN NOT pg_is_in_recovery() THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint END AS timeline) i
