-- require_end(until timestamptz) -> void
--   Raises RH002 if the end that an operator gave is past, or more than 366 days ahead. A null end
--   is accepted.
-- reads, writes, locks: nothing.   called by: pause_rail, pause_participant, close_enqueue.
CREATE OR REPLACE FUNCTION {cell}.require_end(until timestamptz) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF until <= clock_timestamp() OR until > clock_timestamp() + interval '366 days' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the end must be in the future, at most 366 days ahead',
      HINT = 'Without an end it lasts until an operator ends it.';
  END IF;
END
$$;
