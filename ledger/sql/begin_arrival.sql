-- Prepares this cell for what another one has packed. $1 bucket, $2 version, $3 digest
SELECT {cell}.begin_arrival($1, $2, $3)
