-- Records that the database may have forgotten committed rows. $1 worker_id, $2 cause, $3 detail,
-- $4 the time of the check
SELECT {cell}.suspend_outbox($1, $2, $3, $4)
