-- cell_map() -> (bucket integer, cell text, version integer, setting text, cell_schema text, here boolean)
--   The copy of the directory that this cell has: the cell that takes each bucket, with the name of
--   its connection setting, and the version of the bucket, which counts its cells. No row if the cell
--   has no map.
-- reads:   payment_buckets, payment_cells.   locks: nothing.   called by: ingest, api, those who look.
CREATE OR REPLACE FUNCTION {cell}.cell_map()
RETURNS TABLE (bucket integer, cell text, version integer, setting text, cell_schema text, here boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT b.bucket, b.cell, b.version, c.setting, c.cell_schema, c.here
  FROM {cell}.payment_buckets b
  JOIN {cell}.payment_cells c ON c.name = b.cell
  ORDER BY b.bucket
$$;
