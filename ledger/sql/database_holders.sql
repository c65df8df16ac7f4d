-- The sessions, prepared transactions and replication slots that keep vacuum from removing dead
-- rows of this database, the oldest first, with the logins of the sessions. Every role sees these,
-- but the start of a transaction only for its own sessions: xids counts the transactions that began
-- since. A vacuum does not hold back another one; autovacuum has no user. $1 limit
SELECT h.kind, h.name, h.login, h.application, h.xids, h.known_ms
FROM (
  SELECT 'session' AS kind, s.pid::text AS name, s.usename::text AS login, s.application_name AS application,
    age(x.xid)::bigint AS xids,
    coalesce((extract(epoch FROM clock_timestamp() - s.xact_start) * 1000)::bigint, 0) AS known_ms
  FROM pg_stat_activity s
  CROSS JOIN LATERAL (
    SELECT CASE WHEN s.backend_xid IS NULL OR age(s.backend_xmin) > age(s.backend_xid) THEN s.backend_xmin
      ELSE s.backend_xid END AS xid) x
  WHERE s.pid <> pg_backend_pid() AND s.usesysid IS NOT NULL AND x.xid IS NOT NULL
    AND (s.datid IS NULL OR s.datid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
    AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = s.pid)
  UNION ALL
  SELECT 'prepared', p.gid, p.owner::text, '', age(p.transaction)::bigint,
    (extract(epoch FROM clock_timestamp() - p.prepared) * 1000)::bigint
  FROM pg_prepared_xacts p
  WHERE p.database = current_database()
  UNION ALL
  SELECT 'slot', r.slot_name::text, '', '', age(r.xmin)::bigint, 0
  FROM pg_replication_slots r
  WHERE r.xmin IS NOT NULL) h
WHERE h.xids > 0
ORDER BY h.xids DESC, h.known_ms DESC
LIMIT $1
