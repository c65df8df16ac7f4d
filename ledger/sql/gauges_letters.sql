-- Open dead letters by rail and reason, and when the youngest of them was opened, from the index of open ones. The
-- count of each reason is at most $2. $1 reasons
SELECT w.rail_type, v.reason, count(*) AS open, max(w.opened_at) AS opened_at
FROM unnest($1::text[]) AS v(reason)
CROSS JOIN LATERAL (
  SELECT d.rail_type, d.opened_at
  FROM {cell}.payment_dead_letters d
  WHERE d.reason = v.reason AND d.status NOT IN ({closed_letters})
  LIMIT $2) w
GROUP BY w.rail_type, v.reason
