-- uuidv7_from(micros bigint) -> uuid
--   A version 7 UUID (RFC 9562, section 5.7) of a time in microseconds since 1970: 48 bits of
--   milliseconds, 12 bits of the fraction of that millisecond, 62 random bits.
--
--   The function is one expression, which the planner inlines. It therefore sets no search_path,
--   and qualifies every name instead.
-- reads, writes, locks: nothing.
-- called by: uuidv7 before PostgreSQL 18, the enqueue functions, executor.
CREATE OR REPLACE FUNCTION {cell}.uuidv7_from(micros bigint) RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
  SELECT pg_catalog.encode(
    pg_catalog.int8send(
      (($1 OPERATOR(pg_catalog./) 1000) OPERATOR(pg_catalog.<<) 16)
        OPERATOR(pg_catalog.|) 28672
        OPERATOR(pg_catalog.|) (($1 OPERATOR(pg_catalog.%) 1000) OPERATOR(pg_catalog.*) 4096 OPERATOR(pg_catalog./) 1000))
      OPERATOR(pg_catalog.||) pg_catalog.substring(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()), 9),
    'hex')::pg_catalog.uuid
$$;
