-- What the newest rows of the archive that answer, repair or act say of a rail: how its calls
-- ended, by result and error code, with how long they took; and its codes, by code, table and
-- result; each the most frequent first. There is one row at least, with the numbers of rows that
-- were read; its kind is null if none is of the rail.
-- $1 rail_type, $2 rows to read, $3 limit of codes, and of ends of calls
WITH newest AS MATERIALIZED (
  SELECT a.rail_type, a.rail_code, a.code_table, a.result, a.error_code, a.latency_ms, a.created_at
  FROM {cell}.payment_outbox_attempts a
  WHERE a.state NOT IN ({claim_states}) AND a.xact < pg_snapshot_xmax(pg_current_snapshot())
  ORDER BY a.xact DESC
  LIMIT $2
)
SELECT n.looked, n.of_rail, n.since, c.kind, c.code, c.code_table, c.result, c.answers, c.first_at, c.last_at, c.codes,
  c.took_ms
FROM (
  SELECT count(*) AS looked, count(*) FILTER (WHERE w.rail_type = $1) AS of_rail, min(w.created_at) AS since
  FROM newest w) n
LEFT JOIN LATERAL (
  (SELECT 'code' AS kind, w.rail_code AS code, w.code_table, w.result, count(*) AS answers, min(w.created_at) AS first_at,
     max(w.created_at) AS last_at, count(*) OVER () AS codes, NULL::integer[] AS took_ms
   FROM newest w
   WHERE w.rail_type = $1 AND w.rail_code IS NOT NULL
   GROUP BY w.rail_code, w.code_table, w.result
   ORDER BY count(*) DESC, w.rail_code, w.code_table, w.result
   LIMIT $3)
  UNION ALL
  (SELECT 'end', w.error_code, NULL, w.result, count(*), min(w.created_at), max(w.created_at), count(*) OVER (),
     percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY w.latency_ms)
   FROM newest w
   WHERE w.rail_type = $1 AND w.result IS NOT NULL
   GROUP BY w.result, w.error_code
   ORDER BY count(*) DESC, w.result, w.error_code
   LIMIT $3)
) c ON true
