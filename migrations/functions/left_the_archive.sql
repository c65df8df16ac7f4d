-- left_the_archive(outbox_id uuid) -> boolean
--   Whether the instruction is of before the oldest partition of the archive: its
--   month was detached, and the registry alone remembers it.
-- reads:   the catalog.   locks: nothing.   called by: record_late_outcome.
CREATE OR REPLACE FUNCTION {cell}.left_the_archive(outbox_id uuid) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce($1 < min(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM [(]''([0-9a-f-]{36})''[)]'))::uuid, false)
  FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = '{cell}.payment_outbox_attempts'::regclass
$$;
