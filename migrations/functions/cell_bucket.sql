-- cell_bucket(participant_id text) -> integer
--   The bucket of a participant, 0 to 1023: the first 10 bits of SHA-256 of its UTF-8 bytes.
--   outbox.BucketOf computes the same in Go. It never changes: participants would get other cells.
--
--   The function is one expression, which the planner inlines. It therefore sets no search_path.
-- reads, writes, locks: nothing.   called by: takes_participant, the enqueue functions, refuse_foreign_participant, give_buckets,
--          learn_cells, foreign_participants, freeze_bucket, pack_bucket, require_movable, payment_outbox_violation, accept_timeline, require_gate,
--          other_cell_key; ingest, api, operator, readonly, auditor.
CREATE OR REPLACE FUNCTION {cell}.cell_bucket(participant_id text) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
  SELECT ('x' OPERATOR(pg_catalog.||) pg_catalog.left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to($1,
    'UTF8')), 'hex'), 3))::pg_catalog.bit(12)::pg_catalog.int4 OPERATOR(pg_catalog.>>) 2
$$;
