-- Says that a component is alive. $1 name, $2 kind, $3 host, $4 version, $5 status, $6 activity
INSERT INTO {cell}.outbox_heartbeats AS h (name, kind, host, version, status, activity)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (name) DO UPDATE SET last_tick_at = clock_timestamp(), status = excluded.status, activity = excluded.activity
