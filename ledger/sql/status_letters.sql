-- Open dead letters by rail and reason, the number of OUTCOME_UNKNOWN ones that are pending for an
-- inquiry of an operator, and in every row whether letters were left out; one row without a rail if
-- none is open. $1 the most letters to count
WITH w AS MATERIALIZED (
  SELECT d.outbox_id, d.rail_type, d.reason, d.opened_at
  FROM {cell}.payment_dead_letters d
  WHERE d.status NOT IN ({closed_letters})
  LIMIT $1 + 1)
SELECT g.rail_type, g.reason, g.open, g.oldest_ms, g.asked, (SELECT count(*) FROM w) > $1 AS capped
FROM (VALUES (1)) AS one
LEFT JOIN (
  SELECT w.rail_type, w.reason, count(*) AS open,
    (extract(epoch FROM clock_timestamp() - min(w.opened_at)) * 1000)::bigint AS oldest_ms,
    count(CASE w.reason WHEN 'OUTCOME_UNKNOWN' THEN
      (SELECT 1 FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = w.outbox_id LIMIT 1) END) AS asked
  FROM w
  GROUP BY w.rail_type, w.reason) g ON true
ORDER BY g.rail_type, g.reason
