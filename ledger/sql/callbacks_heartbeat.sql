-- Says that a callback endpoint is alive: see heartbeat.
-- $1 name, $2 kind: callback, $3 host, $4 version, $5 status, $6 activity, $7 stale after ms, $8 the host's clock,
-- $9 the start that it has looked at; null: any, $10 vouched
SELECT b.beats
FROM {cell}.beat_callbacks($1, $3, $4, $5, $6, $7, $8, $9, $10) AS b(beats)
WHERE $2::text = 'callback'
