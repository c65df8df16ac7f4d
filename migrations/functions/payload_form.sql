-- payload_form(outbox_id uuid) -> setof (depth, key, kind)
--   The form of the payload that the next send of an instruction would have, without its values: for
--   each value its depth, its key (null for an element of a list and for the payload itself; at most
--   81 characters of it) and its type: object, list, text, number, true or false, null. The rows are in
--   the order of the document, at most 201, to a depth of 20. None if no row has a payload.
-- reads:   what payload_of reads.   writes: nothing.   locks: nothing.   called by: readers.
CREATE OR REPLACE FUNCTION {cell}.payload_form(outbox_id uuid)
RETURNS TABLE (depth integer, key text, kind text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE part (place, name, value) AS (
    SELECT ARRAY[]::integer[], NULL::text, c.payload
    FROM {cell}.payload_of(payload_form.outbox_id) c
    WHERE c.payload IS NOT NULL
    UNION ALL
    SELECT p.place || m.n::integer, m.name, m.value
    FROM part p
    CROSS JOIN LATERAL (
      SELECT o.n, o.key AS name, o.value
      FROM jsonb_each(CASE jsonb_typeof(p.value) WHEN 'object' THEN p.value ELSE '{}' END)
        WITH ORDINALITY o (key, value, n)
      UNION ALL
      SELECT l.n, NULL, l.value
      FROM jsonb_array_elements(CASE jsonb_typeof(p.value) WHEN 'array' THEN p.value ELSE '[]' END)
        WITH ORDINALITY l (value, n)) m
    WHERE cardinality(p.place) < 20 AND m.n <= 201)
  SELECT cardinality(p.place), left(p.name, 81),
    CASE jsonb_typeof(p.value)
      WHEN 'array' THEN 'list'
      WHEN 'string' THEN 'text'
      WHEN 'boolean' THEN 'true or false'
      ELSE jsonb_typeof(p.value)
    END
  FROM part p
  ORDER BY p.place
  LIMIT 201;
END
$$;
