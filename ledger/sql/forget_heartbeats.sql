-- Forgets components that ended long ago and hold no claim: every process start
-- has a row. $1 silent for ms, $2 limit
DELETE FROM {cell}.outbox_heartbeats h
WHERE h.name = ANY (ARRAY(
  SELECT o.name FROM {cell}.outbox_heartbeats o
  WHERE o.last_tick_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_claims f WHERE f.worker_id = o.name)
  ORDER BY o.last_tick_at
  LIMIT $2))
