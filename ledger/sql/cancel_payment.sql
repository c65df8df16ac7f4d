-- Cancels a pending instruction that was never executed. $1 outbox_id, $2 reason
SELECT {cell}.cancel_payment($1, $2)
