-- Key pairs of a page that stand for more than one outbox_id: in the registry, and in rows of
-- pending or the archive that hold a pair, as older rows do, other than that of their outbox_id in
-- the registry. $1 <= outbox_id <= $2; the first row holds the count. Both look-ups in the registry
-- are written so that they stay one probe for each row, whatever number of rows the planner
-- estimates: joins were observed to read the whole registry, or to compare every row of a page with
-- every other.
WITH carried AS (
  SELECT p.instruction_id, p.idempotency_key, p.outbox_id FROM {cell}.payment_outbox_pending p
  WHERE p.outbox_id >= $1 AND p.outbox_id <= $2 AND p.instruction_id IS NOT NULL
  UNION ALL
  SELECT a.instruction_id, a.idempotency_key, a.outbox_id FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id >= $1 AND a.outbox_id <= $2 AND a.instruction_id IS NOT NULL
),
pairs AS (
  SELECT k.instruction_id, k.idempotency_key, k.outbox_id FROM {cell}.payment_outbox_keys k
  WHERE k.outbox_id >= $1 AND k.outbox_id <= $2
  UNION ALL
  SELECT DISTINCT c.instruction_id, c.idempotency_key, c.outbox_id
  FROM carried c
  WHERE (
    SELECT (k.instruction_id, k.idempotency_key) = (c.instruction_id, c.idempotency_key)
    FROM {cell}.payment_outbox_keys k
    WHERE k.outbox_id = c.outbox_id) IS NOT TRUE
)
SELECT 'count' AS what, '' AS instruction_id, '' AS idempotency_key, NULL::uuid AS outbox_id, NULL::uuid AS other, count(*) AS n
  FROM pairs
UNION ALL
SELECT 'pair', x.instruction_id, x.idempotency_key, x.outbox_id, other.outbox_id, 1
FROM pairs x
CROSS JOIN LATERAL (
  SELECT k.outbox_id FROM {cell}.payment_outbox_keys k
  WHERE k.instruction_id = x.instruction_id AND k.idempotency_key = x.idempotency_key AND k.outbox_id <> x.outbox_id
  LIMIT 1) other
UNION ALL
-- The registry holds a digest of a key that came over HTTP, and payment_api_calls the key, once for each participant:
-- a digest without its row could be used for another payment.
SELECT 'no call', k.instruction_id, k.idempotency_key, k.outbox_id, NULL, 1
FROM {cell}.payment_outbox_keys k
WHERE k.outbox_id >= $1 AND k.outbox_id <= $2 AND k.idempotency_key ~ '^api-[0-9a-f]{64}$'
  AND (SELECT c.outbox_id FROM {cell}.payment_api_calls c WHERE c.outbox_id = k.outbox_id LIMIT 1) IS NULL
UNION ALL
SELECT 'other call', '', '', c.outbox_id, NULL, 1
FROM {cell}.payment_api_calls c
WHERE c.outbox_id >= $1 AND c.outbox_id <= $2 AND (
  SELECT k.participant_id = c.participant_id AND k.idempotency_key = 'api-' || encode(sha256(convert_to(
    c.participant_id || chr(31) || c.idempotency_key, 'UTF8')), 'hex')
  FROM {cell}.payment_outbox_keys k
  WHERE k.outbox_id = c.outbox_id) IS NOT TRUE
UNION ALL
-- Whatever the setting was for callers by SQL: over HTTP a second key is always refused.
SELECT 'second key', k.instruction_id, k.participant_id, k.outbox_id, other.outbox_id, 1
FROM {cell}.payment_outbox_keys k
CROSS JOIN LATERAL (
  SELECT o.outbox_id FROM {cell}.payment_outbox_keys o
  WHERE o.instruction_id = k.instruction_id AND o.idempotency_key ~ '^api-[0-9a-f]{64}$'
    AND o.participant_id = k.participant_id AND o.outbox_id < k.outbox_id
  ORDER BY o.outbox_id
  LIMIT 1) other
WHERE k.outbox_id >= $1 AND k.outbox_id <= $2 AND k.idempotency_key ~ '^api-[0-9a-f]{64}$'
