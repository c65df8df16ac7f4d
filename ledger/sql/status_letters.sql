-- Open dead letters by rail and reason, the age of the oldest, the number of OUTCOME_UNKNOWN ones that are pending for an
-- inquiry of an operator, and in every row whether some were not counted; one row without a rail if none is open. The
-- index of open ones has the pairs of reason and rail, one probe for each, so that no letter hides those of another rail.
-- $1 the most letters to count, shared by the pairs, with 100 for each at least, $2 the most pairs
WITH RECURSIVE walk AS (
  SELECT f.reason, f.rail_type
  FROM (
    SELECT d.reason, d.rail_type
    FROM {cell}.payment_dead_letters d
    WHERE d.status NOT IN ({closed_letters})
    ORDER BY d.reason, d.rail_type
    LIMIT 1) f
  UNION ALL
  SELECT n.reason, n.rail_type
  FROM walk w
  CROSS JOIN LATERAL (
    SELECT d.reason, d.rail_type
    FROM {cell}.payment_dead_letters d
    WHERE (d.reason, d.rail_type) > (w.reason, w.rail_type) AND d.status NOT IN ({closed_letters})
    ORDER BY d.reason, d.rail_type
    LIMIT 1) n
),
pair AS MATERIALIZED (
  SELECT w.reason, w.rail_type, greatest($1::bigint / count(*) OVER (), 100) AS most
  FROM (SELECT k.reason, k.rail_type FROM walk k LIMIT $2) w
),
counted AS MATERIALIZED (
  SELECT p.rail_type, p.reason, least(c.open, p.most) AS open, c.open > p.most AS capped, c.asked,
    (extract(epoch FROM clock_timestamp() - o.opened_at) * 1000)::bigint AS oldest_ms
  FROM pair p
  CROSS JOIN LATERAL (
    SELECT count(*) AS open, count(CASE WHEN p.reason = 'OUTCOME_UNKNOWN' THEN
      (SELECT 1 FROM {cell}.payment_outbox_pending q WHERE q.outbox_id = w.outbox_id LIMIT 1) END) AS asked
    FROM (
      SELECT d.outbox_id
      FROM {cell}.payment_dead_letters d
      WHERE d.reason = p.reason AND d.rail_type = p.rail_type AND d.status NOT IN ({closed_letters})
      LIMIT p.most + 1) w) c
  CROSS JOIN LATERAL (
    SELECT d.opened_at
    FROM {cell}.payment_dead_letters d
    WHERE d.reason = p.reason AND d.rail_type = p.rail_type AND d.status NOT IN ({closed_letters})
    ORDER BY d.opened_at
    LIMIT 1) o
)
SELECT g.rail_type, g.reason, g.open, g.oldest_ms, g.asked,
  (SELECT coalesce(bool_or(c.capped), false) OR count(*) >= $2 FROM counted c) AS capped
FROM (VALUES (1)) AS one
LEFT JOIN counted g ON true
ORDER BY g.rail_type, g.reason
