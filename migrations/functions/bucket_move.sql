-- bucket_move(bucket integer, version integer)
--   -> (cell text, given boolean, participants integer, keys bigint, digest text)
--   A move of a bucket from this cell to another one, and whether it was given; no row: there is none.
--   digest is null until it is packed. Without a version it is the one that is under way.
-- reads:   payment_bucket_moves, payment_buckets.   writes, locks: nothing.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.bucket_move(bucket integer, version integer)
RETURNS TABLE (cell text, given boolean, participants integer, keys bigint, digest text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT m.cell, b.version >= m.version, m.participants, m.keys, m.digest
  FROM {cell}.payment_bucket_moves m
  JOIN {cell}.payment_buckets b ON b.bucket = m.bucket
  WHERE m.bucket = $1 AND m.version = coalesce($2, b.version + 1)
$$;
