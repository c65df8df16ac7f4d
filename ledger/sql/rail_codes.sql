-- The rail's codes in the newest rows of the archive that answer, repair or act, those of all rails:
-- by code, table and result, the most frequent first. There is one row at least, with the numbers of
-- rows that were read; its code is null if they have none.
-- $1 rail_type, $2 rows to read, $3 limit of codes
WITH newest AS MATERIALIZED (
  SELECT a.rail_type, a.rail_code, a.code_table, a.result, a.created_at
  FROM {cell}.payment_outbox_attempts a
  WHERE a.state NOT IN ({claim_states}) AND a.xact < pg_snapshot_xmax(pg_current_snapshot())
  ORDER BY a.xact DESC
  LIMIT $2
)
SELECT n.looked, n.of_rail, n.since, c.rail_code, c.code_table, c.result, c.answers, c.first_at, c.last_at, c.codes
FROM (
  SELECT count(*) AS looked, count(*) FILTER (WHERE w.rail_type = $1) AS of_rail, min(w.created_at) AS since
  FROM newest w) n
LEFT JOIN LATERAL (
  SELECT w.rail_code, w.code_table, w.result, count(*) AS answers, min(w.created_at) AS first_at,
    max(w.created_at) AS last_at, count(*) OVER () AS codes
  FROM newest w
  WHERE w.rail_type = $1 AND w.rail_code IS NOT NULL
  GROUP BY w.rail_code, w.code_table, w.result
  ORDER BY count(*) DESC, w.rail_code, w.code_table, w.result
  LIMIT $3) c ON true
