-- Stores what another cell has packed. $1 bucket, $2 version, $3 digest, $4 participants and $5 keys as JSON
SELECT {cell}.store_arrivals($1, $2, $3, $4, $5)
