-- text_fits(value jsonb) -> boolean
--   Whether the text of a value can be made without danger. jsonb keeps 1e131071 in 12 bytes and writes it with
--   131,072 digits, so that 54 KB of such numbers would be 600 MB of text, several times over. Functions that take
--   jsonb from callers ask before they make its text. False: the numbers alone are longer than any payload that
--   payment_outbox_settings can allow, so no instruction with it was ever stored.
--
--   The function is one expression, which the planner inlines: it therefore sets no search_path; its callers do.
--   In less than 1 KiB there are at most 85 numbers, and 12 MB of text. A compressed value may have more. Of larger
--   ones numbers_fit counts the digits only where a number is very large, very small or zero: 0e-16383 has 16,384 digits.
-- reads, writes, locks: nothing.   called by: the enqueue functions, payment_outbox_violation.
CREATE OR REPLACE FUNCTION {cell}.text_fits(value jsonb) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
  SELECT pg_column_size($1) < 1024 AND pg_column_compression($1) IS NULL
    OR NOT jsonb_path_exists($1, 'strict $.** ? (@.type() == "number") '
      '? (@ >= 1e40 || @ <= -1e40 || @ < 1e-40 && @ > -1e-40)')
    OR {cell}.numbers_fit($1)
$$;
