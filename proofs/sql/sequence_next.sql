-- The next number of each participant must be one after its last number in the registry. A number
-- that was allocated and is missing at the end of a stream is found only here.
WITH RECURSIVE numbered (participant_id) AS (
  (SELECT k.participant_id FROM {cell}.payment_outbox_keys k ORDER BY k.participant_id LIMIT 1)
  UNION ALL
  SELECT (SELECT k.participant_id FROM {cell}.payment_outbox_keys k WHERE k.participant_id > n.participant_id
    ORDER BY k.participant_id LIMIT 1)
  FROM numbered n WHERE n.participant_id IS NOT NULL
),
compared AS (
  SELECT coalesce(s.participant_id, n.participant_id) AS participant_id, s.next_sequence_id,
    coalesce((SELECT max(k.sequence_id) FROM {cell}.payment_outbox_keys k
      WHERE k.participant_id = coalesce(s.participant_id, n.participant_id)), 0) AS last
  FROM {cell}.participant_outbox_sequences s
  FULL JOIN (SELECT x.participant_id FROM numbered x WHERE x.participant_id IS NOT NULL) n
    ON n.participant_id = s.participant_id
)
SELECT 'seen' AS what, format('%s participants', count(*)) AS line, count(*) AS n FROM compared
UNION ALL
SELECT 'offence', format('participant %s: the next number is %s, the last allocated one %s',
  quote_literal(c.participant_id),
  coalesce(c.next_sequence_id::text, 'not known'), c.last), 1
FROM compared c
WHERE c.next_sequence_id IS DISTINCT FROM c.last + 1
ORDER BY 1, 2
