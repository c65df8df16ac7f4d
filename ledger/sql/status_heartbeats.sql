-- Components with a heartbeat in the last day; those that stopped in order, in the last hour. Relayers and
-- reapers come first: components of other kinds, which the Internet reaches, don't push them out. Rows of those are
-- named by kind and name. $1 limit
SELECT CASE WHEN h.kind IN ('relayer', 'reaper') THEN h.name ELSE substr(h.name, length(h.kind) + 2) END AS name, h.kind, h.host, h.version, h.status, h.activity, h.started_at,
  (extract(epoch FROM clock_timestamp() - h.last_tick_at) * 1000)::bigint AS age_ms,
  coalesce(h.clock_offset_ms, 0) AS clock_offset_ms, h.stale_after_ms, h.budget_version
FROM {cell}.outbox_heartbeats h
WHERE h.last_tick_at > clock_timestamp() - CASE h.status WHEN 'stopped' THEN interval '1 hour' ELSE interval '1 day' END
ORDER BY h.kind IN ('relayer', 'reaper') DESC, h.last_tick_at DESC
LIMIT $1
