-- numbers_fit(value jsonb) -> boolean
--   Whether the numbers in a value that may be long, which are very large, very small or zero, have at most 1,048,576
--   digits, points and signs in all, which is the highest payload_bytes_max. It writes one number at a time, and stops
--   at the bound. payment.CheckJSON counts all numbers: the others that it refuses are too large a payload here. The
--   numbers are gathered first: jsonb_path_query takes each from the front of a list, which is quadratic.
-- reads, writes, locks: nothing.   called by: text_fits.
CREATE OR REPLACE FUNCTION {cell}.numbers_fit(value jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  bytes  integer := 0;
  number jsonb;
BEGIN
  FOR number IN
    SELECT e.value FROM jsonb_array_elements(jsonb_path_query_array($1, 'strict $.** ? (@.type() == "number") '
      '? (@ >= 1e40 || @ <= -1e40 || @ < 1e-40 && @ > -1e-40)')) e
  LOOP
    bytes := bytes + octet_length(number #>> '{}');
    IF bytes > 1048576 THEN
      RETURN false;
    END IF;
  END LOOP;
  RETURN true;
END
$$;
