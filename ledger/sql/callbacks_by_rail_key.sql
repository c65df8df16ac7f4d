-- The instruction that a rail knows by this key; null: none. $1 rail_key
SELECT {cell}.payment_of_rail_key($1)
