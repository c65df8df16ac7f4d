-- bucket_is_leaving(version integer, leaving integer) -> boolean
--   Whether a bucket is being moved to another cell: leaving of payment_buckets is the version that the
--   gift will have. With every other change of the bucket it says nothing any more.
--
--   The function is one expression, which the planner inlines. It therefore sets no search_path.
-- reads, writes, locks: nothing.   called by: owner's functions.
CREATE OR REPLACE FUNCTION {cell}.bucket_is_leaving(version integer, leaving integer) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$
  SELECT coalesce($2 = $1 OPERATOR(pg_catalog.+) 1, false)
$$;
