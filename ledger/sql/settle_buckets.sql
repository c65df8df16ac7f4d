-- Says which cell takes contradicted buckets. $1 buckets, $2 their new versions, $3 the cell, $4 reason
SELECT {cell}.settle_buckets($1, $2, $3, $4)
