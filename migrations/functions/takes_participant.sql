-- takes_participant(own_buckets bit(1024), participant_id text) -> boolean
--   Whether this cell takes instructions of a participant, by payment_outbox_rules.own_buckets. If
--   that is null, the cell has no map and takes all; the test of null is then the whole cost. With a
--   map it takes those of its buckets, while the map is confirmed (map_is_confirmed). The enqueue functions
--   ask it only where the map is not that of the start of the server that confirmed_start of
--   payment_outbox_rules names, where that row was loaded from a dump (confirmed_table), or the bucket is not this cell's.
--
--   The function is one expression without a query, which the planner inlines. It therefore sets no
--   search_path; its callers do.
-- reads:   what map_is_confirmed reads.   writes, locks: nothing.
-- called by: the enqueue functions, payment_outbox_violation.
CREATE OR REPLACE FUNCTION {cell}.takes_participant(own_buckets bit, participant_id text) RETURNS boolean
LANGUAGE sql STABLE
AS $$
  SELECT $1 IS NULL OR get_bit($1, {cell}.cell_bucket($2)) = 1 AND {cell}.map_is_confirmed()
$$;
