-- The buckets that this cell takes, those about which maps contradict each other, whether the map is known to be
-- complete since the server was started or promoted, when that was, and whether the rows are known to be. No argument
SELECT coalesce(array_agg(b.bucket ORDER BY b.bucket) FILTER (WHERE b.mine), '{}'),
  coalesce(array_agg(b.bucket ORDER BY b.bucket) FILTER (WHERE b.contradicted), '{}'), {cell}.map_is_confirmed(),
  coalesce({cell}.map_server(), ''), {cell}.server_is_settled()
FROM {cell}.payment_buckets b
