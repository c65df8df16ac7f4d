-- reason_of_both(standing text, standing_by text, reason text) -> text
--   The reason of a pause, or of a closed gate, with one word more, for a statement of before migration 45
--   that is under way. Functions of today use add_stop, which keeps the words apart.
-- errors:  RH002 as of acting_person.
-- reads, writes, locks: nothing.   called by: functions of before migration 45.
CREATE OR REPLACE FUNCTION {cell}.reason_of_both(standing text, standing_by text, reason text) RETURNS text
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RETURN {cell}.text_of_stops({cell}.add_stop(NULL, $1, $2, $3));
END
$$;
