-- The sessions, prepared transactions and replication slots that keep vacuum from removing dead
-- rows of this database, oldest first. Every role sees the age of each session's snapshot, but the
-- start of its transaction only for its own sessions. A vacuum does not hold back another one;
-- autovacuum has no user. $1 limit
SELECT h.holder, h.xid, h.known_ms
FROM (
  SELECT 'session ' || s.pid AS holder, x.xid::text, age(x.xid) AS xids,
    coalesce((extract(epoch FROM clock_timestamp() - s.xact_start) * 1000)::bigint, 0) AS known_ms
  FROM pg_stat_activity s
  CROSS JOIN LATERAL (
    SELECT CASE WHEN s.backend_xid IS NULL OR age(s.backend_xmin) > age(s.backend_xid) THEN s.backend_xmin
      ELSE s.backend_xid END AS xid) x
  WHERE s.pid <> pg_backend_pid() AND s.usesysid IS NOT NULL AND x.xid IS NOT NULL
    AND (s.datid IS NULL OR s.datid = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
    AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum v WHERE v.pid = s.pid)
  UNION ALL
  SELECT 'prepared ' || p.gid, p.transaction::text, age(p.transaction),
    (extract(epoch FROM clock_timestamp() - p.prepared) * 1000)::bigint
  FROM pg_prepared_xacts p
  WHERE p.database = current_database()
  UNION ALL
  SELECT 'slot ' || r.slot_name, r.xmin::text, age(r.xmin), 0
  FROM pg_replication_slots r
  WHERE r.xmin IS NOT NULL) h
WHERE h.xids > 0
ORDER BY h.xids DESC
LIMIT $1
