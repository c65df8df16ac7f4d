-- add_stop(stops jsonb, standing text, standing_by text, reason text) -> jsonb
--   What was asked of a pause, or of a closed gate, with one word more: that of the session's login, for
--   the person on whose behalf it acts. stops is what was asked before; standing and standing_by are the
--   reason and the login in the row, null if there is no pause. If stops is not what standing says, as of
--   a row of before migration 45, standing is kept whole as a word of that login; only of one with more
--   than 1,500 characters, which no function writes, the middle is left out. text_of_stops makes the new
--   reason.
--
--   The same word of the same person adds nothing while it is the newest of all: it is a call that is repeated after a lost
--   answer. Once anything was said since, it is said anew, and becomes the newest. At most 50 words are kept. Those that leave are counted, and left_out has how
--   many; they are first the oldest after which the same person has said something else, then the oldest. The
--   first stays.
-- errors:  RH002 as of acting_person.
-- reads, writes, locks: nothing.   called by: pause_rail, pause_participant, close_enqueue, auto_pause_rail,
--          reason_of_both.
CREATE OR REPLACE FUNCTION {cell}.add_stop(stops jsonb, standing text, standing_by text, reason text) RETURNS jsonb
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  words_max CONSTANT integer := 50;
  this CONSTANT jsonb := jsonb_build_object('by', session_user, 'for', {cell}.acting_person(), 'said', $4);
  words jsonb := $1 -> 'words';
  left_out integer := $1 ->> 'left_out';
  place integer;
BEGIN
  IF $2 IS NULL THEN
    words := '[]';
    left_out := 0;
  ELSIF words IS NULL OR {cell}.text_of_stops($1) COLLATE "C" IS DISTINCT FROM $2 COLLATE "C" THEN
    words := jsonb_build_array(jsonb_build_object('by', $3, 'for', NULL, 'whole', true,
      'said', CASE WHEN length($2) > 1500 THEN left($2, 740) || ' ... ' || right($2, 740) ELSE $2 END));
    left_out := 0;
  END IF;
  SELECT max(e.n) INTO place
  FROM jsonb_array_elements(words) WITH ORDINALITY AS e(word, n)
  WHERE e.word - 'at' - 'whole' = this;
  IF place = jsonb_array_length(words) THEN
    RETURN jsonb_build_object('left_out', left_out, 'words', words);
  ELSIF place > 1 THEN
    words := words - (place - 1);
  END IF;
  words := words || jsonb_build_array(this || jsonb_build_object('at',
    to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')));
  IF jsonb_array_length(words) > words_max THEN
    SELECT o.n INTO place
    FROM (
      SELECT e.n, lead(e.n) OVER (PARTITION BY e.word -> 'by', e.word -> 'for' ORDER BY e.n) IS NULL AS newest
      FROM jsonb_array_elements(words) WITH ORDINALITY AS e(word, n)) o
    WHERE o.n > 1
    ORDER BY o.newest, o.n
    LIMIT 1;
    words := words - (place - 1);
    left_out := left_out + 1;
  END IF;
  RETURN jsonb_build_object('left_out', left_out, 'words', words);
END
$$;
