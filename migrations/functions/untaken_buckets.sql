-- untaken_buckets() -> integer
--   How many buckets this cell has, or maps of cells contradict each other about, whose participants it does
--   not take: they are being moved away, or were given to it and have not arrived, or its server is not accepted, or an
--   operator has to settle them. No cell takes them meanwhile. 0 without a map.
-- reads:   payment_cells, payment_buckets.   writes, locks: nothing.
-- called by: executor, operator, readonly, auditor.
CREATE OR REPLACE FUNCTION {cell}.untaken_buckets() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT count(*)::integer
  FROM {cell}.payment_buckets b
  JOIN {cell}.payment_cells h ON h.here
  WHERE b.contradicted OR b.cell = h.name AND (NOT b.mine OR {cell}.bucket_is_leaving(b.version, b.leaving))
$$;
