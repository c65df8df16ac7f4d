-- The instruction with this rail key; null if there is none. settled is then whether the rows are
-- known to be complete: a missing instruction may have been forgotten. $1 rail_key
SELECT p.id, CASE WHEN p.id IS NULL THEN {cell}.server_is_settled() END AS settled
FROM {cell}.payment_of_rail_key($1) AS p (id)
