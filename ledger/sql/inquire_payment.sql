-- Puts what is parked out for one inquiry. $1 outbox_id, $2 reason
SELECT {cell}.inquire_payment($1, $2)
