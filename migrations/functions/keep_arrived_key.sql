-- keep_arrived_key() -> trigger
--   Refuses every change of a key that came from another cell, and its removal once it is in force: a repeated call
--   would be enqueued a second time.
-- errors:  P0001, as refuse_change.
-- reads:   payment_arrivals.   writes, locks: nothing.   called by: the trigger of payment_arrived_keys.
CREATE OR REPLACE FUNCTION {cell}.keep_arrived_key() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF TG_OP = 'DELETE' AND NOT EXISTS (
    SELECT FROM {cell}.payment_arrivals a
    WHERE a.bucket = OLD.bucket AND a.version = OLD.version AND a.taken_at IS NOT NULL)
  THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'P0001',
    MESSAGE = format('%s of %I.%I is refused', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME),
    HINT = 'Calls are answered by its rows. They are removed only with a move that was not completed.';
END
$$;
