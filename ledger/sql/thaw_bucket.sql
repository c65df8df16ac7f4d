-- Ends the move of a bucket that was not given yet. $1 bucket, $2 reason
SELECT {cell}.thaw_bucket($1, $2)
