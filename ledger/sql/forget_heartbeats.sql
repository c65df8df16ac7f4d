-- Deletes the heartbeats of components that ended long ago and hold no claim; every process start
-- has a row. It deletes none while the server is not settled, because they show which components
-- ran before the server went back. It never deletes the last relayer, nor the last one that
-- vouched: they show that the cell has sent, and up to which time the data is complete. It waits for no
-- row: a login that the Internet reaches may hold the one of its own old heartbeat. $1 ms without a
-- heartbeat, $2 limit
DELETE FROM {cell}.outbox_heartbeats h
WHERE h.name = ANY (ARRAY(
  SELECT o.name FROM {cell}.outbox_heartbeats o
  WHERE o.last_tick_at < clock_timestamp() - $1::bigint * interval '1 millisecond'
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_claims f WHERE f.worker_id = o.name)
    AND (o.kind <> 'relayer' OR EXISTS (
      SELECT FROM {cell}.outbox_heartbeats n
      WHERE n.kind = 'relayer' AND (n.last_tick_at, n.name) > (o.last_tick_at, o.name) AND n.vouched >= o.vouched))
  ORDER BY o.last_tick_at
  LIMIT $2
  FOR UPDATE OF o SKIP LOCKED))
  AND (SELECT {cell}.server_is_settled())
