-- clean_reference(reference text) -> text
--   A rail's reference as it is stored and compared, which is as a reader sees it: without the blanks
--   around it, with plain spaces for those within it, without other characters that are not seen, and
--   with a letter and its accent as one character where Unicode has it (NFC; left out in a cell that
--   an older build made in another encoding than UTF8). Null for one that can't be stored: with a control character, of more than 256 bytes, or of
--   which nothing is seen; and for null, so that a row without a reference is never compared as one
--   that has another. rails.CleanReference is the same rule for what a rail says.
--
--   Rows that builds of before migration 65 wrote have references as the rail gave them: each
--   comparison of two references is one of what this function returns.
-- reads, writes, locks: nothing.
-- called by: resolve_payment, retire_references, record_late_outcome, answer_open_claim, executed_twice,
--            refused_and_executed.
CREATE OR REPLACE FUNCTION {cell}.clean_reference(reference text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  seen text COLLATE "C";
  bare CONSTANT text COLLATE "C" := substring(reference COLLATE "C" FROM E'^[{blanks}]*([^{blanks}](?:.*[^{blanks}])?)');
BEGIN
  IF bare IS NULL OR octet_length(bare) > 256 OR bare ~ E'[\\u0001-\\u001F\\u007F-\\u009F]' THEN
    RETURN NULL;
  END IF;
  seen := btrim(regexp_replace(regexp_replace(bare, E'[{blanks}]', ' ', 'g'), E'[{unseen}]', '', 'g'));
  IF getdatabaseencoding() = 'UTF8' THEN
    seen := normalize(seen, NFC);
  END IF;
  RETURN CASE WHEN seen <> '' AND octet_length(seen) <= 256 THEN seen END;
END
$$;
