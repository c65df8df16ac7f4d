WITH carried AS (
  SELECT p.instruction_id, p.idempotency_key, p.outbox_id FROM {cell}.payment_outbox_pending p WHERE p.instruction_id IS NOT NULL
  UNION ALL
  SELECT a.instruction_id, a.idempotency_key, a.outbox_id FROM {cell}.payment_outbox_attempts a WHERE a.instruction_id IS NOT NULL
),
-- Rows with the same pair as in the registry are left out: the row of the registry represents them.
pairs AS (
  SELECT k.instruction_id, k.idempotency_key, k.outbox_id FROM {cell}.payment_outbox_keys k
  UNION ALL
  SELECT DISTINCT c.instruction_id, c.idempotency_key, c.outbox_id
  FROM carried c
  LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = c.outbox_id
  WHERE ((k.instruction_id, k.idempotency_key) = (c.instruction_id, c.idempotency_key)) IS NOT TRUE
)
SELECT format('instruction %s, key %s: outbox_id %s and %s', p.instruction_id, p.idempotency_key, p.outbox_id, other.outbox_id) AS violation
FROM pairs p
JOIN {cell}.payment_outbox_keys other
  ON other.instruction_id = p.instruction_id AND other.idempotency_key = p.idempotency_key AND other.outbox_id <> p.outbox_id
