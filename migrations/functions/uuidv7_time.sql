-- uuidv7_time(id uuid) -> timestamptz
--   The time inside a UUIDv7, to the millisecond.
-- reads, writes, locks: nothing.   called by: owner's functions, readers.
CREATE OR REPLACE FUNCTION {cell}.uuidv7_time(id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
$$;
