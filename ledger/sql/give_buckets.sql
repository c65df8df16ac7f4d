-- Gives buckets of this cell to another one. $1 buckets, $2 the other cell, $3 reason
SELECT {cell}.give_buckets($1, $2, $3)
