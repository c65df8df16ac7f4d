-- refuse_change() -> trigger
--   Raises P0001 for every UPDATE, DELETE and TRUNCATE of an append-only table, whose trigger is
--   named accordingly. Also raises it for tables that must not be emptied, and for a row or value
--   that payments depend on and that must not be lost.
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
      THEN 'Append a row that records what is true now; rows are never changed or removed.'
      ELSE 'Payments depend on its rows. They are changed by components, and by functions that log the operator '
        'and the reason.' END;
END
$$;
