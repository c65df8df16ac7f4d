-- The rail key of every instruction of a page, and the values from which it is derived: $1 <=
-- outbox_id <= $2.
SELECT k.outbox_id, k.participant_id, k.instruction_id, k.idempotency_key, k.rail_key, s.rail_key_namespace
FROM {cell}.payment_outbox_keys k
JOIN {cell}.payment_outbox_settings s ON s.singleton
WHERE k.outbox_id >= $1 AND k.outbox_id <= $2
