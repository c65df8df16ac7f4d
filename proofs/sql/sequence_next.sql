-- The next number of each participant must be one after its last number in the registry. A number
-- that was allocated and is missing at the end of a stream is found only here. A participant that was moved to
-- another cell has its next number in payment_packed_participants, and one that came from another cell may
-- have its last one in payment_arrived_keys.
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
      WHERE k.participant_id = coalesce(s.participant_id, n.participant_id)), 0) AS last,
    coalesce((SELECT max(k.sequence_id)
      FROM {cell}.payment_arrived_keys k
      JOIN {cell}.payment_arrivals a ON a.bucket = k.bucket AND a.version = k.version AND a.taken_at IS NOT NULL
      WHERE k.participant_id = coalesce(s.participant_id, n.participant_id)), 0) AS arrived,
    (SELECT max(p.next_sequence_id) FROM {cell}.payment_packed_participants p
      WHERE p.participant_id = coalesce(s.participant_id, n.participant_id)) AS packed
  FROM {cell}.participant_outbox_sequences s
  FULL JOIN (SELECT x.participant_id FROM numbered x WHERE x.participant_id IS NOT NULL) n
    ON n.participant_id = s.participant_id
)
SELECT 'seen' AS what, format('%s participants', count(*)) AS line, count(*) AS n FROM compared
UNION ALL
SELECT 'offence', format('participant %s: the next number is %s, the last allocated one %s',
  quote_literal(c.participant_id),
  coalesce(c.next_sequence_id::text, 'not known'), greatest(c.last, c.arrived)), 1
FROM compared c
WHERE coalesce(c.next_sequence_id, c.packed) IS DISTINCT FROM greatest(c.last, c.arrived) + 1
ORDER BY 1, 2
