-- uuidv7() -> uuid
--   A version 7 UUID (RFC 9562, section 5.7) of this moment: 48 bits of Unix
--   milliseconds, 12 bits of the fraction of that millisecond, 62 random bits.
--   PostgreSQL 18 has one of its own, of the same meaning; before it this body.
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
      RETURN encode(
        int8send(((micros / 1000) << 16) | 28672 | ((micros % 1000) * 4096 / 1000))
          || substring(uuid_send(gen_random_uuid()) FROM 9),
        'hex')::uuid;
    END
    $body$;
  END IF;
END
$install$;
