-- Open dead letters by rail and reason, and when the youngest of them was opened, from the index of open ones: one probe
-- for each rail that has some of a reason, and one for the youngest of it, so that no letter of another rail hides it.
-- The counts of a reason are $2 divided by the number of these rails at most, and 100 at least. $1 reasons, $3 the most
-- pairs of reason and rail
WITH RECURSIVE walk AS (
  SELECT v.reason, f.rail_type
  FROM unnest($1::text[]) AS v(reason)
  CROSS JOIN LATERAL (
    SELECT d.rail_type
    FROM {cell}.payment_dead_letters d
    WHERE d.reason = v.reason AND d.status NOT IN ({closed_letters})
    ORDER BY d.rail_type
    LIMIT 1) f
  UNION ALL
  SELECT w.reason, n.rail_type
  FROM walk w
  CROSS JOIN LATERAL (
    SELECT d.rail_type
    FROM {cell}.payment_dead_letters d
    WHERE d.reason = w.reason AND d.rail_type > w.rail_type AND d.status NOT IN ({closed_letters})
    ORDER BY d.rail_type
    LIMIT 1) n
),
pair AS MATERIALIZED (
  SELECT w.reason, w.rail_type FROM walk w LIMIT $3
),
bound AS MATERIALIZED (
  SELECT p.reason, greatest($2::bigint / count(*), 100) AS most FROM pair p GROUP BY p.reason
)
SELECT p.rail_type, p.reason, c.open, y.opened_at
FROM pair p
JOIN bound b ON b.reason = p.reason
CROSS JOIN LATERAL (
  SELECT count(*) AS open
  FROM (
    SELECT FROM {cell}.payment_dead_letters d
    WHERE d.reason = p.reason AND d.rail_type = p.rail_type AND d.status NOT IN ({closed_letters})
    LIMIT b.most) w) c
CROSS JOIN LATERAL (
  SELECT d.opened_at
  FROM {cell}.payment_dead_letters d
  WHERE d.reason = p.reason AND d.rail_type = p.rail_type AND d.status NOT IN ({closed_letters})
  ORDER BY d.opened_at DESC
  LIMIT 1) y
