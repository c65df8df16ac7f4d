-- schema_version() -> text
--   What this cell was migrated to: its newest migration, and a digest of the
--   functions and views that came with it. Every process compares its text with
--   its own before it works. It reads the text from the catalog, which needs no
--   privilege in the cell, so that a login of any role can be refused.
-- reads, writes, locks: nothing.   called by: nothing.
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration {version}, sources {sources}'
$$;
