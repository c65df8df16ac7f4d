-- left_the_archive(outbox_id uuid) -> boolean
--   Whether the instruction is older than the oldest partition of the archive: its month was
--   detached, and only the registry remembers it. While no DEFAULT partition is attached, the
--   answer is false, because the rows may be in that partition.
-- reads:   the catalog.   locks: nothing.   called by: record_late_outcome, outcome_place, recall_memory, prune,
--          advance_order_lines, triage_dead_letter, executor.
CREATE OR REPLACE FUNCTION {cell}.left_the_archive(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT (SELECT t.partdefid <> 0 FROM pg_partitioned_table t
      WHERE t.partrelid = '{cell}.payment_outbox_attempts'::regclass)
      AND coalesce($1 < min(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM [(]''([0-9a-f-]{36})''[)]'))::uuid,
        false)
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = '{cell}.payment_outbox_attempts'::regclass);
END
$$;
