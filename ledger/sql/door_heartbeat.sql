-- Records the heartbeat of an API process. $1 name, $2 host, $3 version, $4 status, $5 activity, $6 stale after ms,
-- $7 the host's clock
SELECT b.beats, b.budget_version, b.claim_timeout_ms, b.start_within_ms, b.record_within_ms, b.drain_ms,
  b.heartbeat_stale_ms
FROM {cell}.beat_api($1, $2, $3, $4, $5, $6, $7, NULL, false) b
