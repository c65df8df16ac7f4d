-- Records an outcome whose number is taken. $1 outbox_outcome as JSON
SELECT {cell}.record_late_outcome($1::jsonb)
