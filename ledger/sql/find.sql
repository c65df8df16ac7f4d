-- Instructions to which a reference may refer. Six indexes are probed, and nothing else is
-- read. A rail's reference is looked for as it was given, and as clean_reference has it, but for
-- accents: it may be pasted from a page of the bank. An instruction that is not in the registry, and so
-- was never enqueued, is found by its outbox_id, from any row of it. One that was enqueued in another cell,
-- before its participant was moved to this one, is found by its outbox_id and instruction_id: cells are
-- then those that had its bucket.
-- $1 outbox_id or null, $2 the reference, $3 limit of each, $4 rail_key or null
SELECT DISTINCT ON (f.outbox_id) f.outbox_id, f.found_by, k.instruction_id, k.idempotency_key, k.participant_id,
  k.sequence_id, k.created_at, k.cells
FROM (
  (SELECT $1::uuid AS outbox_id, 'outbox_id' AS found_by
   WHERE $1::uuid IS NOT NULL)
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
   WHERE a.rail_reference IN ($2,
     btrim(regexp_replace(regexp_replace($2, E'[{blanks}]', ' ', 'g'), E'[{unseen}]', '', 'g')))
   LIMIT $3)
  UNION ALL
  (SELECT i.outbox_id, 'instruction_id'
   FROM {cell}.payment_arrived_keys i
   WHERE i.instruction_id = $2
   ORDER BY i.idempotency_key
   LIMIT $3)
) f
CROSS JOIN LATERAL (
  (SELECT i.instruction_id, i.idempotency_key, i.participant_id, i.sequence_id, i.created_at, NULL::text[] AS cells
   FROM {cell}.payment_outbox_keys i
   WHERE i.outbox_id = f.outbox_id)
  UNION ALL
  (SELECT coalesce(a.instruction_id, ''), coalesce(a.idempotency_key, ''),
    coalesce(a.participant_id, ''), coalesce(a.sequence_id, 0), a.created_at, NULL
   FROM {cell}.payment_outbox_attempts a
   WHERE a.outbox_id = f.outbox_id
   ORDER BY a.attempt_no
   LIMIT 1)
  UNION ALL
  (SELECT coalesce(p.instruction_id, ''), coalesce(p.idempotency_key, ''), p.participant_id, coalesce(p.sequence_id, 0),
    p.created_at, NULL
   FROM {cell}.payment_outbox_pending p
   WHERE p.outbox_id = f.outbox_id)
  UNION ALL
  (SELECT d.instruction_id, '', d.participant_id, 0, d.opened_at, NULL
   FROM {cell}.payment_dead_letters d
   WHERE d.outbox_id = f.outbox_id)
  UNION ALL
  (SELECT i.instruction_id, i.idempotency_key, i.participant_id, i.sequence_id, i.created_at, ARRAY(
     SELECT DISTINCT c.cell
     FROM {cell}.payment_cell_changes c
     WHERE c.bucket = a.bucket AND c.version < a.version
     ORDER BY c.cell)
   FROM {cell}.payment_arrived_keys i
   JOIN {cell}.payment_arrivals a ON a.bucket = i.bucket AND a.version = i.version
   WHERE i.outbox_id = f.outbox_id AND a.taken_at IS NOT NULL
   ORDER BY a.version
   LIMIT 1)
  LIMIT 1) k
ORDER BY f.outbox_id, f.found_by <> 'outbox_id', f.found_by <> 'rail_key', f.found_by
