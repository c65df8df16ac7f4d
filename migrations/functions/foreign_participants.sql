-- foreign_participants() -> bigint
--   How many participants have enqueued in this cell whose buckets are those of other cells, or have been, and are
--   not taken by this one yet: the cell was restored to a time before it gave the buckets away, or before it had a
--   map. 0 without a map.
-- reads:   payment_cells, payment_buckets, payment_cell_changes; participant_outbox_sequences, every row once.
-- writes, locks: nothing.
-- called by: operator.
CREATE OR REPLACE FUNCTION {cell}.foreign_participants() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT count(*)
  FROM {cell}.payment_cells h
  CROSS JOIN (SELECT {cell}.cell_bucket(s.participant_id) AS bucket FROM {cell}.participant_outbox_sequences s OFFSET 0) p
  JOIN {cell}.payment_buckets b ON b.bucket = p.bucket
  WHERE h.here AND (b.cell <> h.name OR NOT b.mine AND EXISTS (
    SELECT FROM {cell}.payment_cell_changes o WHERE o.bucket = b.bucket AND o.cell_id <> h.cell_id))
$$;
