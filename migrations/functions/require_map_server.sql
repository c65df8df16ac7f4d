-- require_map_server(server text) -> void
--   Refuses an act that rests on a map of this cell which was read under another server than the
--   present one (map_server).
-- errors:  RH020.
-- reads:   what map_server reads.   writes, locks: nothing.   called by: flush_map, confirm_map.
CREATE OR REPLACE FUNCTION {cell}.require_map_server(server text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF require_map_server.server IS DISTINCT FROM {cell}.map_server() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'the server was started or promoted, or a dump '
      'was loaded into it, since its map was read',
      HINT = 'Read and compare all maps again: railhead cell sync.';
  END IF;
END
$$;
