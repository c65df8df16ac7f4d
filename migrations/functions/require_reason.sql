-- require_reason(reason text) -> void
--   Raises RH002 unless an operator's act gives a reason. Spaces and characters that are not seen are none.
-- reads, writes, locks: nothing.   called by: operator functions.
CREATE OR REPLACE FUNCTION {cell}.require_reason(reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF coalesce(reason, '') COLLATE "C" !~ (E'[^\\s\\u0001-\\u0020\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F\\u1160\\u1680\\u17B4\\u17B5\\u180B-\\u180E'
    || E'\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0]')
    OR octet_length(reason) > 2000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a reason of 1 to 2000 bytes is required',
      HINT = 'Give the reason, for the reader of the log.';
  END IF;
END
$$;
