-- clean_reference(reference text) -> text
--   A rail's reference as it is stored and compared, which is as a reader sees it: without the blanks
--   around it, with plain spaces for those within it, and without other characters that are not
--   seen. One that can't be stored is the empty text: with a control character, of more than 256
--   bytes, or of which nothing is seen. rails.CleanReference is the same rule for what a rail says.
-- reads, writes, locks: nothing.   called by: resolve_payment, retire_references.
CREATE OR REPLACE FUNCTION {cell}.clean_reference(reference text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  bare CONSTANT text COLLATE "C" := substring(reference COLLATE "C" FROM E'^[{blanks}]*([^{blanks}](?:.*[^{blanks}])?)');
BEGIN
  IF bare IS NULL OR octet_length(bare) > 256 OR bare ~ E'[\\u0001-\\u001F\\u007F-\\u009F]' THEN
    RETURN '';
  END IF;
  RETURN btrim(regexp_replace(regexp_replace(bare, E'[{blanks}]', ' ', 'g'), E'[{unseen}]', '', 'g'));
END
$$;
