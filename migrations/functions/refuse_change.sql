-- refuse_change() -> trigger
--   Raises P0001 for every UPDATE, DELETE and TRUNCATE of an append-only table.
-- reads, writes, locks: nothing.   called by: triggers, ENABLE ALWAYS.
CREATE OR REPLACE FUNCTION {cell}.refuse_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'P0001',
    MESSAGE = format('%I.%I is append-only: %s is refused', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP),
    HINT = 'Append a row that says what is true now; nothing that was written is ever changed or removed.';
END
$$;
