-- The identity of this server and of this start of it. It changes in a failover or a restore, and
-- data can go back only when it changes.
SELECT (SELECT s.system_identifier FROM pg_control_system() s)::text AS system_identifier,
  CASE WHEN pg_is_in_recovery() THEN NULL
    ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint END AS timeline,
  pg_postmaster_start_time() AS started_at
