-- Open dead letters by rail and reason. $1 letters that are counted
SELECT w.rail_type, w.reason, count(*) AS open,
  (extract(epoch FROM clock_timestamp() - min(w.opened_at)) * 1000)::bigint AS oldest_ms
FROM (
  SELECT d.rail_type, d.reason, d.opened_at
  FROM {cell}.payment_dead_letters d
  WHERE d.status NOT IN ({closed_letters})
  LIMIT $1) w
GROUP BY w.rail_type, w.reason
ORDER BY w.rail_type, w.reason
