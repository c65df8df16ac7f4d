-- require_confirmed_map(act text) -> void
--   Refuses an act of an operator that would be wrong if this cell has forgotten a change of the map of
--   cells (map_is_confirmed).
-- errors:  RH020.
-- reads:   what map_is_confirmed reads.   writes, locks: nothing.
-- called by: give_buckets, freeze_bucket, pack_bucket, thaw_bucket, settle_buckets, accept_timeline.
CREATE OR REPLACE FUNCTION {cell}.require_confirmed_map(act text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF NOT {cell}.map_is_confirmed() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the map of cells was not compared with those of the other cells since the server was started or promoted, or a dump was loaded into it: this cell may have forgotten that it gave participants away, and %s has to wait until it was', act),
      HINT = 'railhead cell sync, then repeat this.';
  END IF;
END
$$;
