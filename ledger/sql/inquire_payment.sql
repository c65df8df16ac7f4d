-- Schedules one inquiry about a parked instruction. $1 outbox_id, $2 reason
SELECT {cell}.inquire_payment($1, $2)
