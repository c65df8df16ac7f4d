-- The endpoints to which events are delivered, with the mark of the events that were given up.
SELECT e.endpoint_id, e.created_at, e.paused_at, e.pause_reason, e.worker_id, e.lease_until, e.delivered_at,
  e.read_until, e.waiting, e.given_up, e.oldest_at, e.last_status, coalesce(g.mark, 0)
FROM {cell}.event_endpoints() e
LEFT JOIN {cell}.given_up_events(NULL) g ON g.endpoint_id = e.endpoint_id
