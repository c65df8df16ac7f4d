-- The registry rows of a page: $1 <= outbox_id <= $2.
SELECT k.outbox_id, k.instruction_id, k.idempotency_key, k.participant_id, k.sequence_id
FROM {cell}.payment_outbox_keys k
WHERE k.outbox_id >= $1 AND k.outbox_id <= $2
