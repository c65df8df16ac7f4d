-- The payments that were dispatched lately, and how long they took from the time at which they could be
-- sent first. Read are the newest rows that answer, repair or act, in the order of their transactions.
-- Payments that an operator ended by evidence are left out.
-- $1 window in ms, $2 the most rows to read, $3 the most payments to measure, those dispatched last,
-- $4 the error code of an operator's evidence
WITH newest AS MATERIALIZED (
  SELECT a.outbox_id, a.created_at, a.state = 'DISPATCHED' AND a.error_code IS DISTINCT FROM $4 AS dispatched
  FROM {cell}.payment_outbox_attempts a
  WHERE a.state NOT IN ({claim_states})
    AND a.xact >= (SELECT {cell}.outcome_feed_since(statement_timestamp() - $1 * interval '1 ms'))
    AND a.xact < (SELECT pg_snapshot_xmax(pg_current_snapshot()))
  ORDER BY a.xact DESC
  LIMIT $2
),
lately AS MATERIALIZED (
  SELECT n.outbox_id, n.created_at, n.dispatched
  FROM newest n
  WHERE n.created_at > statement_timestamp() - $1 * interval '1 ms'
),
measured AS (
  SELECT (extract(epoch FROM d.created_at - greatest(k.created_at, i.not_before)) * 1000)::bigint AS ms
  FROM (
    SELECT l.outbox_id, l.created_at FROM lately l
    WHERE l.dispatched
    ORDER BY l.created_at DESC
    LIMIT $3) d
  CROSS JOIN LATERAL (
    SELECT r.created_at FROM {cell}.payment_outbox_keys r
    WHERE r.outbox_id = d.outbox_id
    LIMIT 1) k
  LEFT JOIN LATERAL (
    SELECT o.not_before FROM {cell}.payment_outbox_instructions o
    WHERE o.outbox_id = d.outbox_id
    LIMIT 1) i ON true
)
SELECT statement_timestamp() AS now, (SELECT count(*) FROM newest) >= $2 AS cut_short, p.since, p.dispatched,
  p.last_minute, m.measured, m.ms
FROM (
  SELECT min(l.created_at) AS since, count(*) FILTER (WHERE l.dispatched) AS dispatched,
    count(*) FILTER (WHERE l.dispatched AND l.created_at > statement_timestamp() - interval '1 minute') AS last_minute
  FROM lately l) p
CROSS JOIN (
  SELECT count(*) AS measured,
    percentile_disc(ARRAY[0.5, 0.95, 0.99]) WITHIN GROUP (ORDER BY g.ms) AS ms
  FROM measured g) m
