-- Open dead letters by rail and reason, and how many of OUTCOME_UNKNOWN wait in
-- pending, for an inquiry that an operator asked for. $1 letters that are counted
SELECT w.rail_type, w.reason, count(*) AS open,
  (extract(epoch FROM clock_timestamp() - min(w.opened_at)) * 1000)::bigint AS oldest_ms,
  count(CASE w.reason WHEN 'OUTCOME_UNKNOWN' THEN
    (SELECT 1 FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = w.outbox_id LIMIT 1) END) AS asked
FROM (
  SELECT d.outbox_id, d.rail_type, d.reason, d.opened_at
  FROM {cell}.payment_dead_letters d
  WHERE d.status NOT IN ({closed_letters})
  LIMIT $1) w
GROUP BY w.rail_type, w.reason
ORDER BY w.rail_type, w.reason
