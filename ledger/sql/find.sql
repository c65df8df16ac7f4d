-- Instructions that a reference may mean: each of four indexes is probed, and
-- nothing else is read. $1 outbox_id or null, $2 the reference, $3 limit of each,
-- $4 rail_key or null
SELECT DISTINCT ON (f.outbox_id) f.outbox_id, f.found_by, k.instruction_id, k.idempotency_key, k.participant_id, k.sequence_id, k.created_at
FROM (
  (SELECT i.outbox_id, 'outbox_id' AS found_by
   FROM {cell}.payment_outbox_keys i
   WHERE i.outbox_id = $1
   LIMIT 1)
  UNION ALL
  (SELECT i.outbox_id, 'instruction_id'
   FROM {cell}.payment_outbox_keys i
   WHERE i.instruction_id = $2
   ORDER BY i.idempotency_key
   LIMIT $3)
  UNION ALL
  (SELECT i.outbox_id, 'rail_key'
   FROM {cell}.payment_outbox_keys i
   WHERE i.rail_key = $4
   LIMIT 1)
  UNION ALL
  (SELECT a.outbox_id, 'rail_reference'
   FROM {cell}.payment_outbox_attempts a
   WHERE a.rail_reference = $2
   LIMIT $3)
) f
CROSS JOIN LATERAL (
  SELECT i.instruction_id, i.idempotency_key, i.participant_id, i.sequence_id, i.created_at
  FROM {cell}.payment_outbox_keys i
  WHERE i.outbox_id = f.outbox_id
  LIMIT 1) k
ORDER BY f.outbox_id, f.found_by
