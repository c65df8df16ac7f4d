-- The next $4 numbers after ($1 participant, $2 number, $3 outbox_id) in the registry, of
-- participant $5 alone unless it is null, and whether pending or the archive holds the instruction
-- under this number. Numbers that a participant was given in another cell, before it was moved to this one,
-- are among them; their instructions are in that cell.
WITH here AS (
  SELECT k.participant_id, k.sequence_id, k.outbox_id
  FROM {cell}.payment_outbox_keys k
  WHERE (k.participant_id, k.sequence_id, k.outbox_id) > ($1, $2::bigint, $3::uuid)
    AND ($5::text IS NULL OR k.participant_id = $5)
  ORDER BY k.participant_id, k.sequence_id, k.outbox_id
  LIMIT $4
),
carried AS (
  SELECT DISTINCT k.participant_id, k.sequence_id, k.outbox_id
  FROM {cell}.payment_arrived_keys k
  JOIN {cell}.payment_arrivals a ON a.bucket = k.bucket AND a.version = k.version AND a.taken_at IS NOT NULL
  WHERE (k.participant_id, k.sequence_id, k.outbox_id) > ($1, $2::bigint, $3::uuid)
    AND ($5::text IS NULL OR k.participant_id = $5)
  ORDER BY k.participant_id, k.sequence_id, k.outbox_id
  LIMIT $4
),
-- One that was enqueued here, and came back, is in both.
page AS (
  SELECT k.participant_id, k.sequence_id, k.outbox_id, bool_or(k.here) AS here
  FROM (
    SELECT h.participant_id, h.sequence_id, h.outbox_id, true AS here FROM here h
    UNION ALL
    SELECT c.participant_id, c.sequence_id, c.outbox_id, EXISTS (
      SELECT FROM {cell}.payment_outbox_keys o
      WHERE o.outbox_id = c.outbox_id AND o.participant_id = c.participant_id AND o.sequence_id = c.sequence_id)
    FROM carried c) k
  GROUP BY k.participant_id, k.sequence_id, k.outbox_id
  ORDER BY k.participant_id, k.sequence_id, k.outbox_id
  LIMIT $4
)
SELECT k.participant_id, k.sequence_id, k.outbox_id,
  NOT k.here OR EXISTS (
    SELECT FROM {cell}.payment_outbox_pending p
    WHERE p.outbox_id = k.outbox_id AND p.participant_id = k.participant_id
      AND coalesce(p.sequence_id, k.sequence_id) = k.sequence_id)
  OR EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = k.outbox_id AND coalesce(a.participant_id, k.participant_id) = k.participant_id
      AND coalesce(a.sequence_id, k.sequence_id) = k.sequence_id) AS held
FROM page k
ORDER BY k.participant_id, k.sequence_id, k.outbox_id
