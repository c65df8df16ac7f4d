-- flush_map() -> void
--   Once the transaction that calls this has committed, every change of the map that an earlier one of
--   this session has read is durable: on disk, and on the synchronous standby if there is one. A
--   transaction that only reads waits for nothing, and a change whose commit still waits for the
--   standby, or whose wait was cancelled, is visible before: a failover would forget it.
-- errors:  25001 above READ COMMITTED.
-- reads, locks: nothing.   writes: a message to the write-ahead log.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.flush_map() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM {cell}.require_durable_map();
  PERFORM pg_logical_emit_message(true, 'railhead', 'map');
END
$$;
