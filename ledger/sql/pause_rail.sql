-- Stops claims of a rail, '*' for everything. $1 rail_type, $2 reason
SELECT {cell}.pause_rail($1, $2)
