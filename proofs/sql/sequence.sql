-- The next $4 numbers after ($1 participant, $2 number, $3 outbox_id) in the registry, of
-- participant $5 alone unless it is null, and whether pending or the archive holds the instruction
-- under this number. Numbers that a participant was given in another cell, before it was moved to this one,
-- are among them; their instructions are in that cell. apart: each other instruction with this number and a lower
-- outbox_id is of another cell than this one, and an operator has settled between the two that another cell takes the
-- participant, which carries no numbers.
WITH here AS (
  SELECT k.participant_id, k.sequence_id, k.outbox_id, k.created_at
  FROM {cell}.payment_outbox_keys k
  WHERE (k.participant_id, k.sequence_id, k.outbox_id) > ($1, $2::bigint, $3::uuid)
    AND ($5::text IS NULL OR k.participant_id = $5)
  ORDER BY k.participant_id, k.sequence_id, k.outbox_id
  LIMIT $4
),
carried AS (
  SELECT DISTINCT k.participant_id, k.sequence_id, k.outbox_id, k.created_at
  FROM {cell}.payment_arrived_keys k
  JOIN {cell}.payment_arrivals a ON a.bucket = k.bucket AND a.version = k.version AND a.taken_at IS NOT NULL
  WHERE (k.participant_id, k.sequence_id, k.outbox_id) > ($1, $2::bigint, $3::uuid)
    AND ($5::text IS NULL OR k.participant_id = $5)
  ORDER BY k.participant_id, k.sequence_id, k.outbox_id
  LIMIT $4
),
-- One that was enqueued here, and came back, is in both.
page AS (
  SELECT k.participant_id, k.sequence_id, k.outbox_id, bool_or(k.here) AS here, min(k.created_at) AS created_at
  FROM (
    SELECT h.participant_id, h.sequence_id, h.outbox_id, h.created_at, true AS here FROM here h
    UNION ALL
    SELECT c.participant_id, c.sequence_id, c.outbox_id, c.created_at, EXISTS (
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
      AND coalesce(a.sequence_id, k.sequence_id) = k.sequence_id) AS held,
  (SELECT EXISTS (SELECT FROM {cell}.payment_cell_changes s WHERE s.settles)) AND NOT EXISTS (
    SELECT
    FROM (
      SELECT o.outbox_id, o.created_at, true AS here FROM {cell}.payment_outbox_keys o
      WHERE o.participant_id = k.participant_id AND o.sequence_id = k.sequence_id
      UNION ALL
      SELECT c.outbox_id, c.created_at, EXISTS (
        SELECT FROM {cell}.payment_outbox_keys i
        WHERE i.outbox_id = c.outbox_id AND i.participant_id = c.participant_id AND i.sequence_id = c.sequence_id)
      FROM {cell}.payment_arrived_keys c
      JOIN {cell}.payment_arrivals a ON a.bucket = c.bucket AND a.version = c.version AND a.taken_at IS NOT NULL
      WHERE c.participant_id = k.participant_id AND c.sequence_id = k.sequence_id) o
    WHERE o.outbox_id < k.outbox_id AND (o.here AND k.here OR NOT EXISTS (
      SELECT
      FROM (SELECT c.bucket FROM {cell}.payment_arrived_keys c WHERE c.participant_id = k.participant_id LIMIT 1) b
      JOIN {cell}.payment_cell_changes s ON s.bucket = b.bucket
      CROSS JOIN LATERAL (SELECT CASE WHEN k.here THEN k.created_at ELSE o.created_at END AS own_at,
        CASE WHEN k.here THEN o.created_at ELSE k.created_at END AS other_at) t
      WHERE s.settles AND NOT EXISTS ( -- a gift since then carries its numbers
        SELECT FROM {cell}.payment_cell_changes m
        WHERE m.bucket = s.bucket AND m.version > s.version AND NOT m.settles
          AND m.changed_at < greatest(o.created_at, k.created_at)) AND CASE
        WHEN NOT k.here AND NOT o.here THEN least(t.own_at, t.other_at) <= s.stored_at
          AND greatest(t.own_at, t.other_at) >= s.changed_at - interval '1 minute'
        WHEN s.cell_id = (SELECT h.cell_id FROM {cell}.payment_cells h WHERE h.here)
          THEN t.own_at >= s.stored_at - interval '1 minute'
        ELSE t.own_at <= s.stored_at AND t.other_at >= s.changed_at - interval '1 minute' END))) AS apart
FROM page k
ORDER BY k.participant_id, k.sequence_id, k.outbox_id
