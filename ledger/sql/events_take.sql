-- An endpoint for a worker. $1 its id, $2 the worker's name, $3 for how many ms, $4 from which moment on a new one is told, or null: from now on
SELECT t.epoch, t.held_by, t.paused_at, t.pause_reason FROM {cell}.take_event_endpoint($1, $2, $3, $4) t
