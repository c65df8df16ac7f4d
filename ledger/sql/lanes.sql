-- The rails that each running relayer serves, and their state. $1 outbox_id of a pending
-- instruction, for its rail; null: every rail, $2 limit
SELECT coalesce(v.rail_type, '') AS rail_type, v.worker_id, v.host, v.profile_version,
  r.profile_version AS profile_in_force, v.slots, v.calls, coalesce(v.breaker, '') AS breaker, v.breaker_open_until,
  coalesce(v.rate, 0) AS rate, coalesce(v.suspended, '') AS suspended, v.stopped_until
FROM {cell}.v_lanes v
LEFT JOIN {cell}.payment_rails r ON r.rail_type = v.rail_type
WHERE $1::uuid IS NULL OR v.rail_type = (SELECT p.rail_type FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1)
ORDER BY v.rail_type, v.worker_id
LIMIT $2
