-- Acquires the lease of an endpoint. $1 its id, $2 the worker's name, $3 lease in ms,
-- $4 the time from which a new endpoint begins, or null: from now on
SELECT t.epoch, t.held_by, t.paused_at, t.pause_reason FROM {cell}.take_event_endpoint($1, $2, $3, $4) t
