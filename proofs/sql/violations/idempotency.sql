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
UNION ALL
SELECT format('instruction %s: outbox_id %s has the key of a call over HTTP, and no such call is recorded: its key may stand for another payment',
  k.instruction_id, k.outbox_id)
FROM {cell}.payment_outbox_keys k
WHERE k.idempotency_key ~ '^api-[0-9a-f]{64}$'
  AND NOT EXISTS (SELECT FROM {cell}.payment_api_calls c WHERE c.outbox_id = k.outbox_id)
UNION ALL
SELECT format('outbox_id %s: the key of its call over HTTP is not the one in the registry', c.outbox_id)
FROM {cell}.payment_api_calls c
LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = c.outbox_id
WHERE (k.participant_id = c.participant_id AND k.idempotency_key = 'api-' || encode(sha256(convert_to(
  c.participant_id || chr(31) || c.idempotency_key, 'UTF8')), 'hex')) IS NOT TRUE
UNION ALL
(SELECT DISTINCT ON (k.outbox_id) format('instruction %s of %s: outbox_id %s and %s, under two keys that came over HTTP',
  k.instruction_id, k.participant_id, k.outbox_id, o.outbox_id)
FROM {cell}.payment_outbox_keys k
JOIN {cell}.payment_outbox_keys o
  ON o.instruction_id = k.instruction_id AND o.participant_id = k.participant_id AND o.outbox_id < k.outbox_id
WHERE k.idempotency_key ~ '^api-[0-9a-f]{64}$' AND o.idempotency_key ~ '^api-[0-9a-f]{64}$'
ORDER BY k.outbox_id, o.outbox_id)
