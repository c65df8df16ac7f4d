-- The next keys of a packed bucket, as JSON. $1 bucket, $2 version, $3 to $5 participant, number and id of the key
-- before, $6 the most
SELECT {cell}.packed_keys($1, $2, $3, $4, $5, $6)::text
