-- Says that the database may have forgotten what was committed. $1 worker_id, $2 cause, $3 detail, $4 when it was looked
SELECT {cell}.suspend_outbox($1, $2, $3, $4)
