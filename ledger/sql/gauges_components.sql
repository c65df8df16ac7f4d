-- Running components by kind and age of their heartbeat. A component that stopped beating, and
-- after whose last heartbeat another of its kind was started, has been replaced and is not counted.
-- Each component is stale after its own stale_after_ms. Of each kind the newest are read, so that no kind
-- pushes out another. $1 the most components of a kind
SELECT h.kind,
  CASE WHEN h.age_ms >= h.stale_after_ms THEN 'stale' WHEN h.age_ms >= h.stale_after_ms / 2 THEN 'warning'
    ELSE 'fresh' END AS status,
  count(*) AS components, min(h.age_ms) AS youngest_ms
FROM (
  SELECT b.kind, b.status, b.last_tick_at, b.stale_after_ms,
    max(b.started_at) OVER (PARTITION BY b.kind) AS latest_start,
    row_number() OVER (PARTITION BY b.kind ORDER BY b.last_tick_at DESC) AS place,
    greatest((extract(epoch FROM clock_timestamp() - b.last_tick_at) * 1000)::bigint, 0) AS age_ms
  FROM {cell}.outbox_heartbeats b
  WHERE b.last_tick_at > clock_timestamp() - interval '1 day') h
WHERE h.place <= $1 AND h.status <> 'stopped' AND (h.age_ms < h.stale_after_ms OR h.latest_start <= h.last_tick_at)
GROUP BY 1, 2
