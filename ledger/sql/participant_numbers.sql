-- The newest sequence numbers of a participant: how many there are, and between which two. Without a
-- gap there are as many as that. $1 participant_id, $2 limit
SELECT count(*) AS numbers, coalesce(min(n.sequence_id), 0) AS lowest, coalesce(max(n.sequence_id), 0) AS highest,
  min(n.created_at) AS since, max(n.created_at) AS until
FROM (
  SELECT k.sequence_id, k.created_at
  FROM {cell}.payment_outbox_keys k
  WHERE k.participant_id = $1
  ORDER BY k.sequence_id DESC
  LIMIT $2) n
