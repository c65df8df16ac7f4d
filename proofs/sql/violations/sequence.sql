WITH {horizon},
given AS (
  SELECT k.participant_id, k.sequence_id, k.outbox_id, k.created_at, true AS here FROM {cell}.payment_outbox_keys k
  UNION -- numbers that were given in another cell, before the participant was moved to this one
  SELECT k.participant_id, k.sequence_id, k.outbox_id, k.created_at, EXISTS (
    SELECT FROM {cell}.payment_outbox_keys o
    WHERE o.outbox_id = k.outbox_id AND o.participant_id = k.participant_id AND o.sequence_id = k.sequence_id)
  FROM {cell}.payment_arrived_keys k
  JOIN {cell}.payment_arrivals a ON a.bucket = k.bucket AND a.version = k.version AND a.taken_at IS NOT NULL
),
numbers AS (
  SELECT k.participant_id, k.sequence_id, k.outbox_id, k.created_at, k.here,
    greatest(coalesce(lag(k.sequence_id) OVER (PARTITION BY k.participant_id ORDER BY k.sequence_id, k.outbox_id), 0), 0) AS before
  FROM given k
)
SELECT CASE
  WHEN n.sequence_id <= n.before THEN format('participant %s: number %s was allocated twice, also to %s', n.participant_id, n.sequence_id, n.outbox_id)
  WHEN n.sequence_id = n.before + 2 THEN format('participant %s: number %s is missing before number %s (%s)',
    n.participant_id, n.before + 1, n.sequence_id, n.outbox_id)
  ELSE format('participant %s: numbers %s to %s are missing before number %s (%s)',
    n.participant_id, n.before + 1, n.sequence_id - 1, n.sequence_id, n.outbox_id)
  END AS violation
FROM numbers n
WHERE n.sequence_id <> n.before + 1
  -- A number that two cells gave, with a settlement between, which carries no numbers.
  AND NOT (n.sequence_id = n.before AND EXISTS (SELECT FROM {cell}.payment_cell_changes s WHERE s.settles) AND NOT EXISTS (
    SELECT
    FROM given o
    WHERE o.participant_id = n.participant_id AND o.sequence_id = n.sequence_id AND o.outbox_id < n.outbox_id
      AND (o.here AND n.here OR NOT EXISTS (
          SELECT
          FROM (SELECT c.bucket FROM {cell}.payment_arrived_keys c WHERE c.participant_id = n.participant_id LIMIT 1) b
          JOIN {cell}.payment_cell_changes s ON s.bucket = b.bucket
          CROSS JOIN LATERAL (SELECT CASE WHEN n.here THEN n.created_at ELSE o.created_at END AS own_at,
            CASE WHEN n.here THEN o.created_at ELSE n.created_at END AS other_at) t
          WHERE s.settles AND NOT EXISTS ( -- a gift since then carries its numbers
            SELECT FROM {cell}.payment_cell_changes m
            WHERE m.bucket = s.bucket AND m.version > s.version AND NOT m.settles
              AND m.changed_at < greatest(o.created_at, n.created_at)) AND CASE
            WHEN NOT n.here AND NOT o.here THEN least(t.own_at, t.other_at) <= s.stored_at
              AND greatest(t.own_at, t.other_at) >= s.changed_at - interval '1 minute'
            WHEN s.cell_id = (SELECT h.cell_id FROM {cell}.payment_cells h WHERE h.here)
              THEN t.own_at >= s.stored_at - interval '1 minute'
            ELSE t.own_at <= s.stored_at AND t.other_at >= s.changed_at - interval '1 minute' END))))
UNION ALL
SELECT format('participant %s: number %s (%s) is neither in pending nor in the archive', k.participant_id, k.sequence_id, k.outbox_id)
FROM {cell}.payment_outbox_keys k
CROSS JOIN horizon h
WHERE (k.outbox_id < h.id) IS NOT TRUE
  AND NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_pending p
    WHERE p.outbox_id = k.outbox_id AND p.participant_id = k.participant_id AND coalesce(p.sequence_id, k.sequence_id) = k.sequence_id)
  AND NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = k.outbox_id AND coalesce(a.participant_id, k.participant_id) = k.participant_id
      AND coalesce(a.sequence_id, k.sequence_id) = k.sequence_id)
