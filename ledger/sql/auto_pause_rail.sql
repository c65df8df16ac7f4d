-- Pauses a rail that refuses us as a whole, unless it is paused. It reports whether this call did it. $1 rail_type, $2 reason
SELECT {cell}.auto_pause_rail($1, $2)
