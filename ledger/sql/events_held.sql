-- The time since which rows are withheld from callers, the time of the next row of another server whose
-- transaction number this one has yet to reach, and the oldest transaction in progress; nulls if there is none.
-- A row that can be seen has a number below xmax, unless a dump of another server brought it. Every role sees which session has locked its own transaction number, and
-- the name of its login. A prepared transaction has no process.
SELECT (
    SELECT a.created_at
    FROM {cell}.payment_outbox_attempts a
    WHERE a.state NOT IN ({claim_states}) AND a.xact >= pg_snapshot_xmin(pg_current_snapshot())
      AND a.xact < pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY a.xact
    LIMIT 1) AS since,
  (
    SELECT a.created_at
    FROM {cell}.payment_outbox_attempts a
    WHERE a.state NOT IN ({claim_states}) AND a.xact >= pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY a.xact
    LIMIT 1) AS ahead,
  h.pid, h.usename, h.datname, h.application_name, h.gid
FROM (VALUES (pg_snapshot_xmin(pg_current_snapshot())::text::bigint % 4294967296)) AS o(xid)
LEFT JOIN LATERAL (
  SELECT l.pid, s.usename::text, s.datname::text, s.application_name, p.gid
  FROM pg_locks l
  LEFT JOIN pg_stat_activity s ON s.pid = l.pid
  LEFT JOIN pg_prepared_xacts p ON p.transaction = l.transactionid
  WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
    AND l.transactionid::text::bigint = o.xid
  LIMIT 1) h ON true
