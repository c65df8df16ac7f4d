-- The instruction that a rail knows by this key. $1 rail_key
SELECT k.outbox_id
FROM {cell}.payment_outbox_keys k
WHERE k.rail_key = $1
