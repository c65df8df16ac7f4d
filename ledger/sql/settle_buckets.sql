-- Says which cell takes contradicted buckets. $1 buckets, $2 their new versions, $3 the cell, $4 reason, $5 the servers on
-- which the maps were read, as JSON
SELECT {cell}.settle_buckets($1, $2, $3, $4, $5)
