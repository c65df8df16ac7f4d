-- The dead letter of an instruction. $1 outbox_id
SELECT d.reason, d.error_code, d.status, d.note, d.actor, d.opened_at, d.updated_at,
  d.amount::text, d.currency, d.attempts, d.first_attempt_at, d.last_attempt_at, d.rail_code, d.error_message
FROM {cell}.payment_dead_letters d
WHERE d.outbox_id = $1
