-- The lowest bound of the archive's partitions: instructions before it have left
-- the archive with their month, and only the registry has them.
horizon AS (
  SELECT min(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM [(]''([0-9a-f-]{36})''[)]'))::uuid AS id
  FROM pg_catalog.pg_inherits i
  JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = to_regclass('{cell}.payment_outbox_attempts')
)
