-- schema_version() -> text
--   The version of this cell: its newest migration, and a digest of the functions and views that
--   came with it. Before it starts work, every process compares this text with its own. It reads
--   the text from the catalog, which needs no privilege in the cell, so that a login of any role
--   can be refused.
-- reads, writes, locks: nothing.   called by: nothing.
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration {version}, sources {sources}'
$$;
