-- Says that a component is alive. $1 name, $2 kind, $3 host, $4 version, $5 status, $6 activity,
-- $7 stale after ms, $8 the host's clock
INSERT INTO {cell}.outbox_heartbeats AS h (name, kind, host, version, status, activity, stale_after_ms, clock_offset_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, (extract(epoch FROM clock_timestamp() - $8::timestamptz) * 1000)::bigint)
ON CONFLICT (name) DO UPDATE SET last_tick_at = clock_timestamp(), status = excluded.status, activity = excluded.activity,
  clock_offset_ms = excluded.clock_offset_ms
