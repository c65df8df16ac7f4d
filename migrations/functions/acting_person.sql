-- acting_person() -> text
--   The person on whose behalf the login acts: the setting railhead.person, or null without one. It
--   is a claim of the login, which no role is kept from making. It is the default of the column
--   person of payment_operator_log, so that every act has it. A name of which nothing is seen is none.
-- errors:  RH002 more than 512 bytes, or a control character.
-- reads, writes, locks: nothing.   called by: payment_operator_log, add_stop.
CREATE OR REPLACE FUNCTION {cell}.acting_person() RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  person text COLLATE "C" := current_setting('railhead.person', true);
BEGIN
  person := CASE WHEN person ~ E'[^ {unseen}]'
    THEN substring(person FROM E'^[{blanks}]*([^{blanks}](?:.*[^{blanks}])?)') END;
  IF octet_length(person) > 512 OR person ~ '[[:cntrl:]]' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'the person on whose behalf the login acts (railhead.person) has at most 512 bytes and no control '
        'character',
      HINT = 'Set railhead.person to the name by which the person logged in.';
  END IF;
  RETURN person;
END
$$;
