-- The rows that a claim of a lane takes first: the heads of each priority, by the same tests as in the claim, not
-- locked. One of them is the row on which a claim of one row fails. $1 rail_type, $2 heads of each priority
SELECT p.outbox_id
FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS level(priority)
CROSS JOIN LATERAL (
  SELECT q.outbox_id
  FROM {cell}.payment_outbox_pending q
  WHERE q.rail_type = $1 AND q.priority = level.priority
    AND q.next_attempt_at <= statement_timestamp()
    AND (q.outcome_unknown OR q.expires_at IS NULL OR q.expires_at > statement_timestamp())
    AND q.participant_id <> ALL (ARRAY(SELECT h.participant_id FROM {cell}.payment_paused_participants h))
  ORDER BY q.next_attempt_at
  LIMIT $2) p
