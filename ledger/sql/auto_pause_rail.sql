-- Pauses a rail that refuses our credentials, route or form, unless it is already paused. Returns
-- whether this call paused it. $1 rail_type, $2 reason
SELECT {cell}.auto_pause_rail($1, $2)
