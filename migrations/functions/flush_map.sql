-- flush_map(server text) -> void
--   Once the transaction that calls this has committed, every change of the map that was read under the
--   given server (map_server) is durable: on disk, and on the synchronous standby if there is one. A
--   transaction that only reads waits for nothing, and a change whose commit still waits for the
--   standby, or whose wait was cancelled, is visible before: a failover would forget it.
-- errors:  RH020 the server was started or promoted since the map was read; 25001 above READ COMMITTED.
-- reads:   what map_server reads.   locks: nothing.   writes: a message to the write-ahead log.
-- called by: operator.
CREATE OR REPLACE FUNCTION {cell}.flush_map(server text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_map_server(flush_map.server);
  PERFORM pg_logical_emit_message(true, 'railhead', 'map');
END
$$;
