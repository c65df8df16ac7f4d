-- require_pause_end(until timestamptz) -> void
--   Raises RH002 where the end of a pause is over, or more than 366 days ahead; null is
--   no end.
-- reads, writes, locks: nothing.   called by: pause_rail, pause_participant.
CREATE OR REPLACE FUNCTION {cell}.require_pause_end(until timestamptz) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF until <= clock_timestamp() OR until > clock_timestamp() + interval '366 days' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the end of a pause must be a moment to come, at most 366 days ahead',
      HINT = 'Without an end a pause lasts until an operator resumes.';
  END IF;
END
$$;
