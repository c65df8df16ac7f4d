-- Sets pending rows aside that can't be claimed, or ended, while others can: they stay
-- where they are, are never due again by themselves, and wait for a person. One that is
-- called put back is looked at again: since it was found another may have ended that,
-- and a good row may stand there. Returns those that were. $1 outbox_id[], $2 error_code
WITH aside AS (
  UPDATE {cell}.payment_outbox_pending p
  SET next_attempt_at = 'infinity'
  WHERE p.outbox_id = ANY ($1::uuid[]) AND ($2 <> 'PUT_BACK' OR {cell}.put_back_after(p.outbox_id) IS NOT NULL)
  RETURNING p.outbox_id
),
letters AS (
  SELECT {cell}.open_dead_letters(array_agg(s.outbox_id), array_agg('UNCLAIMABLE'::text), array_agg($2::text))
  FROM aside s
  HAVING count(*) > 0
)
SELECT s.outbox_id
FROM aside s
LEFT JOIN letters l ON true
