-- The instructions of a page that came over HTTP, and what is wrong with the token of each; null: nothing. $1 <=
-- outbox_id <= $2. A call reads its token before the time of its instruction, and may wait for locks between them:
-- so a minute counts as the same time.
WITH tokens AS MATERIALIZED (
  SELECT t.token_id, t.participants, t.verbs, t.created_at, least(t.expires_at, t.revoked_at) AS ended_at
  FROM {cell}.api_tokens() t
)
SELECT c.outbox_id, CASE
  WHEN t.token_id IS NULL THEN format('the cell has no token %s, by which it came over HTTP', c.token_id)
  WHEN NOT k.participant_id = ANY (t.participants)
    THEN format('it came over HTTP by the token %s, which is not for its participant %s', t.token_id, k.participant_id)
  WHEN NOT 'ENQUEUE' = ANY (t.verbs) THEN format('it came over HTTP by the token %s, which may not enqueue', t.token_id)
  WHEN k.created_at < t.created_at - interval '1 minute'
    THEN format('it was enqueued at %s by the token %s, which was created at %s', k.created_at, t.token_id, t.created_at)
  WHEN k.created_at > t.ended_at + interval '1 minute'
    THEN format('it was enqueued at %s by the token %s, which was in force until %s', k.created_at, t.token_id, t.ended_at)
  END AS violation
FROM {cell}.payment_api_calls c
JOIN {cell}.payment_outbox_keys k ON k.outbox_id = c.outbox_id
LEFT JOIN tokens t ON t.token_id = c.token_id
WHERE c.outbox_id >= $1 AND c.outbox_id <= $2
