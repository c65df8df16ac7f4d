-- The sessions that block session $1: those at the end of each chain, which wait for no other. 0
-- stands for a prepared transaction. Columns of a session that the login may not see are null.
WITH RECURSIVE chain AS (
  SELECT b.pid, 1 AS depth
  FROM unnest(pg_blocking_pids($1)) AS b(pid)
  UNION
  SELECT b.pid, c.depth + 1
  FROM chain c
  CROSS JOIN LATERAL unnest(pg_blocking_pids(c.pid)) AS b(pid)
  WHERE c.depth < 5
),
ends AS (
  SELECT DISTINCT c.pid
  FROM chain c
  WHERE c.depth = 5 OR cardinality(pg_blocking_pids(c.pid)) = 0
)
SELECT e.pid, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), coalesce(a.state, ''),
  coalesce(extract(epoch FROM clock_timestamp() - a.xact_start), 0)::float8,
  CASE WHEN a.state IS NOT NULL THEN left(a.query, 1000) ELSE '' END
FROM ends e
LEFT JOIN pg_stat_activity a ON a.pid = e.pid AND e.pid <> 0
ORDER BY a.xact_start NULLS LAST, e.pid
LIMIT 5
