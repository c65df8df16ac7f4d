-- require_map() -> void
--   Raises an error if this cell is in no directory of cells: see require_directory.
-- errors:  RH009.
-- reads:   payment_outbox_rules.   writes, locks: nothing.
-- called by: ingest, api, require_directory.
CREATE OR REPLACE FUNCTION {cell}.require_map() RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF (SELECT r.own_buckets IS NULL FROM {cell}.payment_outbox_rules r) IS NOT FALSE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH009',
      MESSAGE = 'this cell is in no directory of cells: it may have been restored to a time before it joined',
      COLUMN = 'participant_id', CONSTRAINT = 'CELL',
      HINT = 'Nothing was stored. Repeat it later with the same key and content.';
  END IF;
END
$$;
