-- What this cell has of the keys of buckets that came from another cell, or were packed for one. $1 buckets
SELECT m.bucket, m.version, m.digest, m.keys, true AS packed, true AS complete, false AS taken
FROM {cell}.payment_bucket_moves m
WHERE m.bucket = ANY ($1) AND m.digest IS NOT NULL
UNION ALL
SELECT a.bucket, a.version, a.digest, (
    SELECT count(*) FROM {cell}.payment_arrived_keys k WHERE k.bucket = a.bucket AND k.version = a.version),
  false, a.complete_at IS NOT NULL, a.taken_at IS NOT NULL
FROM {cell}.payment_arrivals a
WHERE a.bucket = ANY ($1)
