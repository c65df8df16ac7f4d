-- uuidv7() -> uuid
--   A version 7 UUID of the current time. PostgreSQL 18 has a function of its own, with the same
--   layout as uuidv7_from; earlier versions use the body below.
-- reads, writes, locks: nothing.   called by: owner's functions, executor.
DO $install$
BEGIN
  IF to_regprocedure('pg_catalog.uuidv7()') IS NOT NULL THEN
    CREATE OR REPLACE FUNCTION {cell}.uuidv7() RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT pg_catalog.uuidv7()';
  ELSE
    CREATE OR REPLACE FUNCTION {cell}.uuidv7() RETURNS uuid
    LANGUAGE plpgsql VOLATILE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    AS $body$
    DECLARE
      micros bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    BEGIN
      RETURN {cell}.uuidv7_from(micros);
    END
    $body$;
  END IF;
END
$install$;
