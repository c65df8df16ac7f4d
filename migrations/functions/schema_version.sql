-- schema_version() -> text
--   The newest migration of this cell, and the oldest migration whose binaries work on it.
--   Every process reads this text from the catalog before it works, which needs no
--   privilege in the cell. Each migration makes the function anew.
-- reads, writes, locks: nothing.   called by: nothing.
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration {version}, serves {serves}'
$$;
