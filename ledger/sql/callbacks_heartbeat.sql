-- Records the heartbeat of a callback endpoint: see heartbeat.sql.
-- $1 name, $2 kind: callback, $3 host, $4 version, $5 status, $6 activity, $7 stale after ms, $8 the host's clock,
-- $9 the start of the server that the endpoint has compared; null: any, $10 vouched
-- $11 to $14 are the executor's: an endpoint claims nothing
SELECT b.beats, b.budget_version, b.claim_timeout_ms, b.start_within_ms, b.record_within_ms, b.drain_ms,
  b.heartbeat_stale_ms
FROM {cell}.beat_callbacks($1, $3, $4, $5, $6, $7, $8, $9, $10) b
WHERE $2::text = 'callback' AND ($11::bigint, $12::bigint, $13::integer, $14::jsonb) IS NOT NULL
