-- The next due rows of a lane, unlocked, for claiming them one by one after a
-- claim of many failed. $1 rail_type, $2 outbox_id[] to leave alone, $3 limit
SELECT p.outbox_id
FROM {cell}.payment_outbox_pending p
WHERE p.rail_type = $1 AND p.next_attempt_at <= statement_timestamp()
  AND p.outbox_id <> ALL ($2::uuid[])
ORDER BY p.priority, p.next_attempt_at, p.outbox_id
LIMIT $3
