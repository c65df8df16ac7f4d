-- The changes of buckets that this cell knows, those of a bucket by version. $1 the most that are read
SELECT c.bucket, c.version, c.cell, c.cell_id::text, c.settles, c.digest, c.reason, c.changed_by, c.changed_at
FROM {cell}.payment_cell_changes c
ORDER BY c.bucket, c.version
LIMIT $1
