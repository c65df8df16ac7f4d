-- Lets a rail, '*' for everything, be claimed again. $1 rail_type, $2 reason
SELECT {cell}.resume_rail($1, $2)
