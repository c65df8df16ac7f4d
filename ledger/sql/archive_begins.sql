-- The lowest bound of the archive's partitions, and the database's clock.
SELECT min(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM [(]''([0-9a-f-]{36})''[)]'))::uuid, clock_timestamp()
FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = '{cell}.payment_outbox_attempts'::regclass
