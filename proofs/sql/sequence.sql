-- The next $4 numbers after ($1 participant, $2 number, $3 outbox_id) in the registry, of
-- participant $5 alone unless it is null, and whether pending or the archive holds the instruction
-- under this number.
SELECT k.participant_id, k.sequence_id, k.outbox_id,
  EXISTS (
    SELECT FROM {cell}.payment_outbox_pending p
    WHERE p.outbox_id = k.outbox_id AND p.participant_id = k.participant_id
      AND coalesce(p.sequence_id, k.sequence_id) = k.sequence_id)
  OR EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = k.outbox_id AND coalesce(a.participant_id, k.participant_id) = k.participant_id
      AND coalesce(a.sequence_id, k.sequence_id) = k.sequence_id) AS held
FROM {cell}.payment_outbox_keys k
WHERE (k.participant_id, k.sequence_id, k.outbox_id) > ($1, $2::bigint, $3::uuid)
  AND ($5::text IS NULL OR k.participant_id = $5)
ORDER BY k.participant_id, k.sequence_id, k.outbox_id
LIMIT $4
