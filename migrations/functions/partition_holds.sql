-- partition_holds(partition oid, id uuid) -> boolean
--   Whether a range partition of payment_outbox_attempts holds this outbox_id; false for the
--   DEFAULT partition.
-- reads:   catalogs.   locks: nothing.   called by: make_attempt_partitions.
CREATE OR REPLACE FUNCTION {cell}.partition_holds(partition oid, id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  bound text[] := regexp_match(
    (SELECT pg_get_expr(c.relpartbound, c.oid) FROM pg_class c WHERE c.oid = partition),
    'FROM [(]''([0-9a-f-]{36})''[)] TO [(]''([0-9a-f-]{36})''[)]');
BEGIN
  RETURN coalesce(id >= bound[1]::uuid AND id < bound[2]::uuid, false);
END
$$;
