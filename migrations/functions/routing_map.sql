-- routing_map() -> (bucket integer, cell text, version integer, setting text, cell_schema text, here boolean,
--     takes boolean, directory_id text)
--   cell_map, for a process that calls several cells. takes: this cell has the bucket and takes its participants,
--   which it does not while it is moving them away or has not got all of them. directory_id is the same in every
--   row: by it a process tells cells of two directories apart that have the same names, settings and versions.
-- reads:   payment_buckets, payment_cells.   writes, locks: nothing.   called by: ingest, api.
CREATE OR REPLACE FUNCTION {cell}.routing_map()
RETURNS TABLE (bucket integer, cell text, version integer, setting text, cell_schema text, here boolean,
  takes boolean, directory_id text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT b.bucket, b.cell, b.version, c.setting, c.cell_schema, c.here,
    c.here AND b.mine AND NOT {cell}.bucket_is_leaving(b.version, b.leaving), c.directory_id::text
  FROM {cell}.payment_buckets b
  JOIN {cell}.payment_cells c ON c.name = b.cell
$$;
