-- Sets a pending row aside that can't be claimed alone while others of its lane
-- can: it stays where it is, is never due again by itself, and waits for a
-- person. One that is called put back is looked at again: since it was found another
-- may have ended that, and a good row may stand there. $1 outbox_id, $2 error_code
WITH aside AS (
  UPDATE {cell}.payment_outbox_pending p
  SET next_attempt_at = 'infinity'
  WHERE p.outbox_id = $1 AND ($2 <> 'PUT_BACK' OR {cell}.put_back_after(p.outbox_id) IS NOT NULL)
  RETURNING p.outbox_id
)
SELECT {cell}.open_dead_letters(ARRAY[s.outbox_id], ARRAY['UNCLAIMABLE'], ARRAY[$2::text])
FROM aside s
