-- Quarantines pending rows that can't be claimed or ended, while others can: they stay in pending,
-- never become due without an operator, and get a dead letter. A row that was found to be put back
-- is checked again: another session may have ended that since, and a valid row may be there.
-- Returns the rows that were quarantined. $1 outbox_id[], $2 error_code
WITH aside AS (
  UPDATE {cell}.payment_outbox_pending p
  SET next_attempt_at = 'infinity'
  WHERE p.outbox_id = ANY ($1::uuid[]) AND ($2 <> 'PUT_BACK' OR {cell}.put_back_after(p.outbox_id) IS NOT NULL)
  RETURNING p.outbox_id, p.rail_type
),
letters AS (
  SELECT {cell}.open_dead_letters(array_agg(s.outbox_id), array_agg('UNCLAIMABLE'::text), array_agg($2::text))
  FROM aside s
  HAVING count(*) > 0
),
lines AS (
  SELECT count({cell}.note_order_change(s.outbox_id, s.rail_type, false)) AS n
  FROM aside s
)
SELECT s.outbox_id
FROM aside s
LEFT JOIN letters l ON true
WHERE (SELECT n.n FROM lines n) >= 0
