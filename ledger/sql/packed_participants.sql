-- The next participants of a packed bucket, as JSON. $1 bucket, $2 version, $3 the participant before, $4 the most
SELECT {cell}.packed_participants($1, $2, $3, $4)::text
