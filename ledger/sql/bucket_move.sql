-- A move of a bucket from this cell. $1 bucket, $2 version, null: the one that is under way
SELECT m.cell, m.given, coalesce(m.participants, 0), coalesce(m.keys, 0), coalesce(m.digest, '')
FROM {cell}.bucket_move($1, $2) m
