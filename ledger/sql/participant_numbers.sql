-- The newest sequence numbers of a participant: how many there are, between which two, and how many were
-- given in other cells, before it was moved to this one. Without a gap there are as many as that.
-- $1 participant_id, $2 limit
SELECT count(*) AS numbers, coalesce(min(n.sequence_id), 0) AS lowest, coalesce(max(n.sequence_id), 0) AS highest,
  min(n.created_at) AS since, max(n.created_at) AS until, count(*) FILTER (WHERE NOT n.here) AS elsewhere
FROM (
  SELECT n.sequence_id, n.created_at, bool_or(n.here) AS here
  FROM (
    (SELECT k.sequence_id, k.created_at, true AS here
     FROM {cell}.payment_outbox_keys k
     WHERE k.participant_id = $1
     ORDER BY k.sequence_id DESC
     LIMIT $2)
    UNION ALL
    (SELECT DISTINCT k.sequence_id, k.created_at, false
     FROM {cell}.payment_arrived_keys k
     WHERE k.participant_id = $1 AND (
       SELECT a.taken_at FROM {cell}.payment_arrivals a
       WHERE a.bucket = k.bucket AND a.version = k.version) IS NOT NULL
     ORDER BY k.sequence_id DESC
     LIMIT $2)) n
  GROUP BY n.sequence_id, n.created_at
  ORDER BY n.sequence_id DESC
  LIMIT $2) n
