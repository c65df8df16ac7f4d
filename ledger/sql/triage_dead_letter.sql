-- Acknowledges, escalates or closes a dead letter. $1 outbox_id, $2 status, $3 reason
SELECT {cell}.triage_dead_letter($1, $2, $3)
