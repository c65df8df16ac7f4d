-- Whether everything of a move has arrived. $1 bucket, $2 version, $3 digest, $4 whether all of it was stored
SELECT {cell}.complete_arrival($1, $2, $3, $4)
