-- uuidv7_floor(moment timestamptz) -> uuid
--   The lowest UUIDv7 of a time: the bound of a partition.
-- reads, writes, locks: nothing.   called by: owner's functions.
CREATE OR REPLACE FUNCTION {cell}.uuidv7_floor(moment timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT encode(int8send((floor(extract(epoch FROM moment) * 1000)::bigint << 16)) || int8send(0), 'hex')::uuid
$$;
