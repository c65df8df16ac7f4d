-- The dead letters of a page.
SELECT d.outbox_id, d.reason, d.status
FROM {cell}.payment_dead_letters d
WHERE d.outbox_id > $1 AND d.outbox_id <= $2
