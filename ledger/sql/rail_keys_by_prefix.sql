-- The rail key of every instruction whose id begins with the prefix, for a run or a test that
-- chooses the ids of its instructions. $1 prefix, $2 limit
SELECT k.outbox_id, k.rail_key
FROM {cell}.payment_outbox_keys k
WHERE starts_with(k.instruction_id, $1)
LIMIT $2
