-- Ends the pause of a rail, or of everything ('*'). $1 rail_type, $2 reason
SELECT {cell}.resume_rail($1, $2)
