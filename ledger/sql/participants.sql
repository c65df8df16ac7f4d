-- Participants in the order of their ids: one probe of the registry's index finds the next one, and
-- one its newest instruction. Instructions in pending are counted among those that were enqueued first.
-- $1 what the ids begin with, $2 only ids after this one, $3 limit, $4 rows of pending to read
WITH RECURSIVE found AS (
  (SELECT k.participant_id, 1 AS place
   FROM {cell}.payment_outbox_keys k
   WHERE k.participant_id > $2 AND k.participant_id >= $1
   ORDER BY k.participant_id
   LIMIT 1)
  UNION ALL
  SELECT (
    SELECT k.participant_id
    FROM {cell}.payment_outbox_keys k
    WHERE k.participant_id > f.participant_id
    ORDER BY k.participant_id
    LIMIT 1), f.place + 1
  FROM found f
  WHERE f.place < $3 AND starts_with(f.participant_id, $1)
), waiting AS MATERIALIZED (
  SELECT w.participant_id, count(*) AS instructions
  FROM (
    SELECT p.participant_id
    FROM {cell}.payment_outbox_pending p
    ORDER BY p.outbox_id
    LIMIT $4) w
  GROUP BY w.participant_id
)
SELECT f.participant_id, l.sequence_id, l.created_at,
  coalesce((SELECT w.instructions FROM waiting w WHERE w.participant_id = f.participant_id), 0) AS waiting,
  (SELECT coalesce(sum(w.instructions), 0) FROM waiting w)::bigint AS looked,
  q.paused_by, q.paused_at, q.pause_reason, q.paused_until
FROM found f
CROSS JOIN LATERAL (
  SELECT k.sequence_id, k.created_at
  FROM {cell}.payment_outbox_keys k
  WHERE k.participant_id = f.participant_id
  ORDER BY k.sequence_id DESC
  LIMIT 1) l
LEFT JOIN {cell}.payment_paused_participants q ON q.participant_id = f.participant_id
WHERE starts_with(f.participant_id, $1)
ORDER BY f.place
