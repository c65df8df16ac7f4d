-- takes_participant(own_buckets bit(1024), participant_id text) -> boolean
--   Whether this cell takes instructions of a participant, by payment_outbox_rules.own_buckets. If
--   that is null, the cell has no map and takes all; the test of null is then the whole cost. With a
--   map it takes those of its buckets that it has, or may begin to have (admits_participant).
--
--   The function is one expression without a query, which the planner inlines. It therefore sets no
--   search_path; its callers do.
-- reads:   what admits_participant reads.   writes, locks: nothing.
-- called by: the enqueue functions, payment_outbox_violation.
CREATE OR REPLACE FUNCTION {cell}.takes_participant(own_buckets bit, participant_id text) RETURNS boolean
LANGUAGE sql STABLE
AS $$
  SELECT $1 IS NULL OR get_bit($1, {cell}.cell_bucket($2)) = 1 AND {cell}.admits_participant($2)
$$;
