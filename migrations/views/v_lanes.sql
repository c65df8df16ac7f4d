CREATE OR REPLACE VIEW {cell}.v_lanes AS
SELECT l.rail_type, h.name AS worker_id, h.host, l.profile_version, l.slots, l.calls, l.breaker,
  CASE WHEN l.open_ms > 0 THEN h.last_tick_at + make_interval(secs => l.open_ms / 1000.0) END AS breaker_open_until,
  l.rate, l.suspended,
  CASE WHEN l.stopped_ms > 0 THEN h.last_tick_at + make_interval(secs => l.stopped_ms / 1000.0) END AS stopped_until,
  h.last_tick_at AS said_at
FROM {cell}.outbox_heartbeats h
CROSS JOIN LATERAL jsonb_to_recordset(h.lanes) AS l (
  rail_type text, profile_version integer, slots integer, calls integer, breaker text, open_ms bigint,
    rate double precision,
  suspended text, stopped_ms bigint)
WHERE h.kind = 'relayer' AND h.status IN ('running', 'suspended')
  AND h.last_tick_at > clock_timestamp() - make_interval(secs => least(h.stale_after_ms, 86400000) / 1000.0);
COMMENT ON VIEW {cell}.v_lanes IS
  'The rails that each running relayer served at its last heartbeat, and their state. A rail without a row is '
  'served by no relayer.';
