-- Sets aside what was put back among the rows that a claim of a lane takes first,
-- by the same tests as the claim's. $1 rail_type, $2 rows of each priority
WITH put_back AS MATERIALIZED (
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
  WHERE {cell}.put_back_after(p.outbox_id) IS NOT NULL
),
aside AS (
  UPDATE {cell}.payment_outbox_pending p
  SET next_attempt_at = 'infinity'
  WHERE p.outbox_id = ANY (ARRAY(SELECT b.outbox_id FROM put_back b))
  RETURNING p.outbox_id
),
letters AS (
  SELECT {cell}.open_dead_letters(array_agg(s.outbox_id), array_agg('UNCLAIMABLE'::text), array_agg('PUT_BACK'::text))
  FROM aside s
  HAVING count(*) > 0
)
SELECT s.outbox_id
FROM aside s
LEFT JOIN letters l ON true
