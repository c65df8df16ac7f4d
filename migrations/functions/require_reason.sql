-- require_reason(reason text) -> void
--   Raises RH002 unless an operator's act gives a reason. Spaces and characters that are not seen are none.
-- reads, writes, locks: nothing.   called by: operator functions.
CREATE OR REPLACE FUNCTION {cell}.require_reason(reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF coalesce(reason, '') COLLATE "C" !~ E'[^ {unseen}]' OR octet_length(reason) > 2000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a reason of 1 to 2000 bytes is required',
      HINT = 'Give the reason, for the reader of the log.';
  END IF;
END
$$;
