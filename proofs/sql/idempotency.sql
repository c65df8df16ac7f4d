-- Key pairs of a page that stand for more than one outbox_id, in the registry,
-- in pending or in the archive: $1 < outbox_id <= $2. The first row counts.
WITH pairs AS (
  SELECT k.instruction_id, k.idempotency_key, k.outbox_id FROM {cell}.payment_outbox_keys k
  WHERE k.outbox_id > $1 AND k.outbox_id <= $2
  UNION
  SELECT p.instruction_id, p.idempotency_key, p.outbox_id FROM {cell}.payment_outbox_pending p
  WHERE p.outbox_id > $1 AND p.outbox_id <= $2
  UNION
  SELECT a.instruction_id, a.idempotency_key, a.outbox_id FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id > $1 AND a.outbox_id <= $2
)
SELECT '' AS instruction_id, '' AS idempotency_key, NULL::uuid AS outbox_id, NULL::uuid AS other, count(*) AS n FROM pairs
UNION ALL
SELECT x.instruction_id, x.idempotency_key, x.outbox_id, k.outbox_id, 1
FROM pairs x
JOIN {cell}.payment_outbox_keys k
  ON k.instruction_id = x.instruction_id AND k.idempotency_key = x.idempotency_key AND k.outbox_id <> x.outbox_id
