-- The pause of an endpoint; no row: it is not paused. $1 endpoint_id
SELECT e.paused_at, e.pause_reason
FROM {cell}.event_endpoints() e
WHERE e.endpoint_id = $1 AND e.paused_at IS NOT NULL
