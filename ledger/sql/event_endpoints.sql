-- The endpoints to which events are delivered.
SELECT e.endpoint_id, e.created_at, e.paused_at, e.pause_reason, e.worker_id, e.lease_until, e.delivered_at,
  e.read_until, e.waiting, e.given_up, e.oldest_at, e.last_status
FROM {cell}.event_endpoints() e
