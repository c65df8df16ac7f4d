-- keep_out_bucket() -> trigger
--   Keeps this cell from taking a bucket whose participants were carried over from another cell before all
--   of them, and all of their keys, are here (complete_arrival): it could enqueue a key a second time. The bucket
--   stays one that it has and does not take. With a bucket that is taken, everything that has arrived of it
--   completely is put in force. What was copied for a move that was ended, and the version of which was given
--   otherwise, is not; what was copied for a gift that no reachable cell knows is, if an operator has settled
--   that this cell takes the bucket.
-- reads:   payment_cell_changes, payment_cells, payment_arrivals.   writes: payment_arrivals.
-- locks:   the bucket's rows of payment_arrivals.   called by: the trigger of payment_buckets.
CREATE OR REPLACE FUNCTION {cell}.keep_out_bucket() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  promised text;
BEGIN
  SELECT k.digest INTO promised FROM {cell}.payment_cell_changes k
  WHERE k.bucket = NEW.bucket AND k.version = NEW.version;
  IF coalesce(promised, '') <> '' AND NOT EXISTS (
    SELECT FROM {cell}.payment_arrivals a
    WHERE a.bucket = NEW.bucket AND a.version = NEW.version AND a.digest = promised AND a.complete_at IS NOT NULL)
  THEN
    NEW.mine := false;
    RETURN NEW;
  END IF;
  UPDATE {cell}.payment_arrivals a SET taken_at = clock_timestamp()
  WHERE a.bucket = NEW.bucket AND a.version <= NEW.version AND a.complete_at IS NOT NULL AND a.taken_at IS NULL
    AND CASE WHEN EXISTS (
        SELECT FROM {cell}.payment_cell_changes k
        WHERE k.bucket = a.bucket AND k.version = a.version AND NOT k.settles)
      THEN EXISTS (
        SELECT FROM {cell}.payment_cell_changes k
        WHERE k.bucket = a.bucket AND k.version = a.version AND k.digest = a.digest)
      ELSE EXISTS (
        SELECT FROM {cell}.payment_cell_changes k
        JOIN {cell}.payment_cells h ON h.cell_id = k.cell_id AND h.here
        WHERE k.bucket = a.bucket AND k.version >= a.version AND k.settles) END;
  RETURN NEW;
END
$$;
