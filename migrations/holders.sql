-- What the sessions $1 wait for: the sessions at the end of each chain, which wait for no other,
-- and the prepared transactions, by name. pg_blocking_pids gives 0 for those: each that holds a lock
-- on what a session of a chain waits for is named. The locks of one have its virtual transaction,
-- which another prepared transaction may have as well; then both are named. What the login may not
-- see of a session is null.
WITH RECURSIVE chain AS (
  SELECT m.pid, 0 AS depth FROM unnest($1::integer[]) AS m(pid)
  UNION
  SELECT b.pid, c.depth + 1
  FROM chain c
  CROSS JOIN LATERAL unnest(pg_blocking_pids(c.pid)) AS b(pid)
  WHERE c.depth < 5
),
ends AS (
  SELECT DISTINCT c.pid
  FROM chain c
  WHERE c.depth > 0 AND c.pid <> 0 AND (c.depth = 5 OR cardinality(pg_blocking_pids(c.pid)) = 0)
)
SELECT e.pid, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(a.state, ''), a.xact_start, ''
FROM ends e
LEFT JOIN pg_stat_activity a ON a.pid = e.pid
UNION ALL
SELECT 0, p.owner::text, '', '', p.prepared, p.gid
FROM pg_prepared_xacts p
WHERE EXISTS (
  SELECT
  FROM pg_locks own
  JOIN pg_locks held ON held.virtualtransaction = own.virtualtransaction AND held.pid IS NULL AND held.granted
  JOIN pg_locks wanted ON NOT wanted.granted AND wanted.pid IN (SELECT c.pid FROM chain c)
    AND (wanted.locktype, wanted.database, wanted.relation, wanted.transactionid, wanted.classid, wanted.objid)
      IS NOT DISTINCT FROM (held.locktype, held.database, held.relation, held.transactionid, held.classid, held.objid)
  WHERE own.locktype = 'transactionid' AND own.transactionid = p.transaction AND own.pid IS NULL)
ORDER BY 5 NULLS LAST, 1
LIMIT 5
