-- The dead letter of an instruction. $1 outbox_id
SELECT d.reason, d.error_code, d.status, d.note, d.actor, d.opened_at, d.updated_at
FROM {cell}.payment_dead_letters d
WHERE d.outbox_id = $1
