-- The instruction that a rail knows by this key; null: none. Then also whether the rows are known to be all
-- that was committed: one that is not there may have been forgotten. $1 rail_key
SELECT p.id, CASE WHEN p.id IS NULL THEN {cell}.server_is_settled() END AS settled
FROM {cell}.payment_of_rail_key($1) AS p (id)
