-- refuse_change() -> trigger
--   Raises P0001 for every UPDATE, DELETE and TRUNCATE of an append-only table, whose
--   triggers are named so, and for what others must not suffer: to be emptied, or to
--   lose the one row or value that payments rest on.
-- reads, writes, locks: nothing.   called by: triggers, ENABLE ALWAYS, those of partitions by attach_attempt_partition.
CREATE OR REPLACE FUNCTION {cell}.refuse_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'P0001',
    MESSAGE = CASE WHEN strpos(TG_NAME, '_append_only') > 0
      THEN format('%I.%I is append-only: %s is refused', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP)
      ELSE format('%s of %I.%I is refused', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME) END,
    HINT = CASE WHEN strpos(TG_NAME, '_append_only') > 0
      THEN 'Append a row that says what is true now; nothing that was written is ever changed or removed.'
      ELSE 'Payments rest on what it holds. Its rows are changed by components, and by functions that log who and why.' END;
END
$$;
