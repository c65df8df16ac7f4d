-- The end of the next page of instructions, and its number of instructions: the last of at most $2
-- outbox_ids from $1 on. Null for the last page, which has no end.
SELECT CASE WHEN count(*) = $2 THEN max(p.outbox_id::text)::uuid END, count(*)
FROM (
  SELECT k.outbox_id FROM {cell}.payment_outbox_keys k
  WHERE k.outbox_id >= $1
  ORDER BY k.outbox_id
  LIMIT $2) p
