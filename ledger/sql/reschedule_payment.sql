-- Changes the due time of a pending instruction. $1 outbox_id, $2 due_at; null: now, $3 reason
SELECT r.was_due_at, r.is_due_at FROM {cell}.reschedule_payment($1, $2, $3) r
