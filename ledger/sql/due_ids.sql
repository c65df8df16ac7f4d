-- The rows that a claim of a lane takes first: the heads of each priority, by the same tests as in the claim, not
-- locked. One of them is the row on which a claim of one row fails. Of participants that are ordered, only the heads
-- of their lines can be claimed. Rows of both kinds take turns, so that few slots reach both. $1 rail_type, $2 heads of
-- each priority, $3 strict, $4 participant_id[] for whom the opposite holds
SELECT r.outbox_id
FROM (
  SELECT p.outbox_id, row_number() OVER () AS turn, 0 AS kind
  FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS level(priority)
  CROSS JOIN LATERAL (
    SELECT h.head AS outbox_id
    FROM {cell}.payment_order_lines h
    WHERE h.rail_type = $1 AND h.priority = level.priority AND h.ready_at <= statement_timestamp()
      AND (h.participant_id = ANY ($4::text[])) <> $3::boolean
      AND h.participant_id <> ALL (ARRAY(SELECT g.participant_id FROM {cell}.payment_paused_participants g))
      AND (
        SELECT true FROM {cell}.payment_order_marks m
        WHERE m.rail_type = h.rail_type AND m.participant_id = h.participant_id LIMIT 1) IS NULL
      AND (
        SELECT true FROM {cell}.payment_outbox_pending q
        WHERE q.outbox_id = h.head AND q.rail_type = $1 AND q.next_attempt_at <= statement_timestamp()
          AND (q.outcome_unknown OR q.expires_at IS NULL OR q.expires_at > statement_timestamp())
        LIMIT 1)
    ORDER BY h.ready_at
    LIMIT $2) p
  UNION ALL
  SELECT p.outbox_id, row_number() OVER () AS turn, 1 AS kind
  FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS level(priority)
  CROSS JOIN LATERAL (
    SELECT q.outbox_id
    FROM {cell}.payment_outbox_pending q
    WHERE q.rail_type = $1 AND q.priority = level.priority
      AND q.next_attempt_at <= statement_timestamp()
      AND (q.outcome_unknown OR q.expires_at IS NULL OR q.expires_at > statement_timestamp())
      AND q.participant_id <> ALL (ARRAY(SELECT h.participant_id FROM {cell}.payment_paused_participants h))
      AND (q.participant_id = ANY ($4::text[])) = $3::boolean
    ORDER BY q.next_attempt_at
    LIMIT $2) p) r
ORDER BY r.turn, r.kind
