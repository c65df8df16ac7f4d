-- numbers_fit(value jsonb) -> boolean
--   Whether the numbers in a value have at most 1,048,576 digits, points and signs in all, which is the highest
--   payload_bytes_max. It writes one number at a time, and stops at the bound. payment.CheckJSON refuses the same.
-- reads, writes, locks: nothing.   called by: text_fits.
CREATE OR REPLACE FUNCTION {cell}.numbers_fit(value jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  bytes  integer := 0;
  number jsonb;
BEGIN
  FOR number IN SELECT jsonb_path_query($1, 'strict $.** ? (@.type() == "number")') LOOP
    bytes := bytes + octet_length(number #>> '{}');
    IF bytes > 1048576 THEN
      RETURN false;
    END IF;
  END LOOP;
  RETURN true;
END
$$;
