-- missing_field(required jsonb, payload jsonb) -> text
--   The first of the dotted paths, in the order of the array, that is missing or null in a payload;
--   null if none is. A number in a path is an array index. rails.Checks implements the same rule.
-- reads, writes, locks: nothing.   called by: the enqueue functions, payment_outbox_violation.
CREATE OR REPLACE FUNCTION {cell}.missing_field(required jsonb, payload jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT r.path
  FROM jsonb_array_elements_text($1) WITH ORDINALITY AS r(path, n)
  WHERE coalesce($2 #> string_to_array(r.path, '.'), 'null') = 'null'
  ORDER BY r.n
  LIMIT 1
$$;
