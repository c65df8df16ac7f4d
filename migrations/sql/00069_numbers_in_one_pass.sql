-- Migration 69, numbers in one pass. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function numbers_fit
CREATE OR REPLACE FUNCTION {cell}.numbers_fit(value jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  bytes  integer := 0;
  number jsonb;
BEGIN
  FOR number IN
    SELECT e.value FROM jsonb_array_elements(jsonb_path_query_array($1, 'strict $.** ? (@.type() == "number") '
      '? (@ >= 1e40 || @ <= -1e40 || @ < 1e-40 && @ > -1e-40)')) e
  LOOP
    bytes := bytes + octet_length(number #>> '{}');
    IF bytes > 1048576 THEN
      RETURN false;
    END IF;
  END LOOP;
  RETURN true;
END
$$;
-- end of numbers_fit

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 69, serves 13'
$$;
-- end of schema_version
