-- The rail key of every instruction whose id begins so. For a run or a test that
-- names its instructions itself; bounded by $2. $1 prefix, $2 limit
SELECT k.outbox_id, k.rail_key
FROM {cell}.payment_outbox_keys k
WHERE starts_with(k.instruction_id, $1)
LIMIT $2
