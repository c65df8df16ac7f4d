-- Stops claims of a rail, or of everything ('*'). $1 rail_type, $2 reason, $3 until; null: no end
SELECT {cell}.pause_rail($1, $2, $3)
