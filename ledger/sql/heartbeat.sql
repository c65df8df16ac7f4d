-- Says that a component is alive, and whether it vouches for this start of the
-- server. Returns how many of them the row counts. No row: the server is not of the start that the component has looked at.
-- $1 name, $2 kind, $3 host, $4 version, $5 status, $6 activity, $7 stale after ms, $8 the host's clock,
-- $9 the start that it has looked at; null: any, $10 vouched
INSERT INTO {cell}.outbox_heartbeats AS h
  (name, kind, host, version, status, activity, stale_after_ms, clock_offset_ms, server_started_at, vouched)
SELECT $1, $2, $3, $4, $5, $6, $7, (extract(epoch FROM clock_timestamp() - $8::timestamptz) * 1000)::bigint,
  pg_postmaster_start_time(), $10
WHERE coalesce($9::timestamptz = pg_postmaster_start_time(), true)
ON CONFLICT (name) DO UPDATE SET last_tick_at = clock_timestamp(), status = excluded.status, activity = excluded.activity,
  clock_offset_ms = excluded.clock_offset_ms, beats = h.beats + 1, vouched = excluded.vouched,
  server_started_at = excluded.server_started_at,
  tick_before_start = CASE WHEN h.server_started_at = excluded.server_started_at THEN h.tick_before_start ELSE h.last_tick_at END
RETURNING h.beats
