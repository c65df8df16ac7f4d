-- reason_of_both(standing text, standing_by text, reason text) -> text
--   The reason of a pause, or of a closed gate, that is in force and is asked for once more: what stands, then
--   '; and LOGIN: REASON' of the session's login. So the operator who ends it is told of each that wanted it. Unchanged if that
--   login has said the same before. The reason has at most 500 characters, and all of it at most 1200: what is too long
--   loses the end of what stands. The operator log has each act whole.
-- reads, writes, locks: nothing.   called by: pause_rail, pause_participant, close_enqueue.
CREATE OR REPLACE FUNCTION {cell}.reason_of_both(standing text, standing_by text, reason text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  length_max CONSTANT integer := 1200;
  said       CONSTANT text COLLATE "C" := left($3, 500);
  added      CONSTANT text COLLATE "C" := format('; and %s: %s', session_user, said);
BEGIN
  IF strpos($1 COLLATE "C" || '; and ', added || '; and ') > 0
    OR $2 COLLATE "C" = session_user AND starts_with($1 COLLATE "C" || '; and ', said || '; and ') THEN
    RETURN $1;
  ELSIF length($1) + length(added) > length_max THEN
    RETURN left($1, length_max - length(added) - 4) || ' ...' || added;
  END IF;
  RETURN $1 || added;
END
$$;
