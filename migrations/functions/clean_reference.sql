-- clean_reference(reference text) -> text
--   A rail's reference as it is stored and compared: without the blanks around it. One that can't be stored is
--   the empty text: of nothing but blanks, of more than 256 bytes, or with a character that is not seen, since a
--   reader takes it for another reference. rails.CleanReference is the same rule for what a rail says.
-- reads, writes, locks: nothing.   called by: resolve_payment.
CREATE OR REPLACE FUNCTION {cell}.clean_reference(reference text) RETURNS text
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  bare CONSTANT text COLLATE "C" := substring(reference COLLATE "C" FROM E'^[{blanks}]*([^{blanks}](?:.*[^{blanks}])?)');
BEGIN
  RETURN CASE WHEN octet_length(bare) > 256 OR bare ~ E'[{unseen}]' THEN '' ELSE coalesce(bare, '') END;
END
$$;
