-- require_directory(argument anyelement) -> anyelement
--   Returns its argument, if this cell is in a directory of cells. Callers that route by a map pass an
--   argument of each enqueue through it: a cell of theirs that is in no directory was restored to a time
--   before it joined, takes everything, and derives other rail keys.
-- errors:  RH009.
-- reads:   payment_outbox_rules.   writes, locks: nothing.   called by: ingest, api.
CREATE OR REPLACE FUNCTION {cell}.require_directory(argument anyelement) RETURNS anyelement
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  IF (SELECT r.own_buckets IS NULL FROM {cell}.payment_outbox_rules r) IS NOT FALSE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH009',
      MESSAGE = 'this cell is in no directory of cells: it may have been restored to a time before it joined',
      COLUMN = 'participant_id', CONSTRAINT = 'CELL',
      HINT = 'Nothing was stored. Repeat it later with the same key and content.';
  END IF;
  RETURN argument;
END
$$;
