-- A participant's instructions in pending, among those of all that were enqueued first.
-- $1 participant_id, $2 rows of pending to read
SELECT count(*) AS looked, count(*) FILTER (WHERE w.participant_id = $1) AS waiting,
  count(*) FILTER (WHERE w.participant_id = $1 AND w.next_attempt_at <= statement_timestamp()) AS due,
  count(*) FILTER (WHERE w.participant_id = $1 AND w.outcome_unknown) AS unknown,
  min(w.created_at) FILTER (WHERE w.participant_id = $1) AS oldest
FROM (
  SELECT p.participant_id, p.next_attempt_at, p.outcome_unknown, p.created_at
  FROM {cell}.payment_outbox_pending p
  ORDER BY p.outbox_id
  LIMIT $2) w
