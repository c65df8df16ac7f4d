-- The buckets that this cell takes, those that it is moving to another cell, those about which maps contradict each other, whether the map is known to be
-- complete since the server was started or promoted, which server that is, whether the rows are known to be, and whether
-- the map was compared on this start. No argument
SELECT coalesce(array_agg(b.bucket ORDER BY b.bucket) FILTER (WHERE b.mine AND b.leaving IS DISTINCT FROM b.version + 1), '{}'),
  coalesce(array_agg(b.bucket ORDER BY b.bucket) FILTER (WHERE b.mine AND b.leaving = b.version + 1), '{}'),
  coalesce(array_agg(b.bucket ORDER BY b.bucket) FILTER (WHERE b.contradicted), '{}'), {cell}.map_is_confirmed(),
  coalesce({cell}.map_server(), ''), {cell}.server_is_settled(),
  EXISTS (SELECT FROM {cell}.payment_outbox_rules r WHERE r.confirmed_start = pg_postmaster_start_time())
FROM {cell}.payment_buckets b
