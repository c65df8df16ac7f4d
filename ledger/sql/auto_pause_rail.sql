-- Pauses a rail that refuses our credentials, route or form, or makes an operator's pause one that
-- an operator has to end, unless a relayer has already. Returns whether this call did. $1 rail_type,
-- $2 reason
SELECT {cell}.auto_pause_rail($1, $2)
