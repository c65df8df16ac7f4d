-- The facts about the server on which payments depend, its identity, and whether it was accepted.
-- The position in the log is the flushed one: a crash may undo what was written beyond it.
SELECT current_setting('fsync') = 'on' AS fsync,
  current_setting('full_page_writes') = 'on' AS full_page_writes,
  -- The setting of the login: our transactions set their own value.
  (SELECT s.reset_val FROM pg_settings s WHERE s.name = 'synchronous_commit') <> 'off' AS synchronous_commit,
  current_setting('server_version_num')::integer AS version,
  pg_is_in_recovery() AS standby,
  i.system_identifier, i.timeline, pg_postmaster_start_time() AS started_at,
  CASE WHEN NOT pg_is_in_recovery() THEN (pg_current_wal_flush_lsn() - '0/0')::bigint END AS log_position,
  clock_timestamp() AS now,
  {cell}.timeline_accepted_at(i.system_identifier, i.timeline) AS accepted_at
FROM (
  SELECT (SELECT s.system_identifier FROM pg_control_system() s)::text AS system_identifier,
    CASE WHEN NOT pg_is_in_recovery()
      THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint END AS timeline) i
