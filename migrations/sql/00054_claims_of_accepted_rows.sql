-- Migration 54, claims of accepted rows. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function rows_are_accepted
CREATE OR REPLACE FUNCTION {cell}.rows_are_accepted() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT EXISTS (
    SELECT FROM {cell}.payment_accepted_timelines t
    WHERE {cell}.timeline_accepted_at(t.system_identifier, t.timeline) IS NOT NULL)
$$;
-- end of rows_are_accepted

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 54, serves 13'
$$;
-- end of schema_version
