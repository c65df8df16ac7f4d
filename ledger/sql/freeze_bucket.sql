-- Begins to move a bucket of this cell to another one. $1 bucket, $2 the other cell, $3 reason
SELECT {cell}.freeze_bucket($1, $2, $3)
