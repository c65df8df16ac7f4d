-- confirm_map(server text, compared text[], gone text[], reason text) -> void
--   Records that the map of this cell holds what the maps of the other cells hold, on the present
--   server, under which it was read: server is what map_server gave then. From the commit on this cell
--   takes instructions again after a restart, a restore or a failover, and accept_timeline may be called.
--   compared names the other cells whose maps were read and learned from, after this server was recorded
--   in them (note_cell_server); gone names those that an operator goes on without, which then needs a
--   reason: a bucket that this cell gave one of them, and has forgotten, is taken twice once that cell
--   is back.
-- errors:  RH002 a name that is null, or cells that are gone without a reason; RH020 this cell knows no
--          other one, may have forgotten them (server_is_settled), and there is no reason; the server was
--          started or promoted since the map was read, this cell has no map, or it knows a cell that is named in neither list; 25001 above READ COMMITTED; 55P03 after
--          5 s of waiting for a lock.
-- reads:   payment_cells, and what map_server and server_is_settled read.
-- writes:  payment_cell_checks, payment_outbox_rules by its trigger; payment_operator_log, if there is a reason.
-- locks:   nothing.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.confirm_map(server text, compared text[], gone text[], reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  here     {cell}.payment_cells;
  left_out text;
BEGIN
  PERFORM {cell}.require_durable_map();
  IF compared IS NULL OR gone IS NULL OR array_position(compared || gone, NULL) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the names of cells must not be null';
  END IF;
  PERFORM {cell}.require_map_server(confirm_map.server);
  SELECT c.* INTO here FROM {cell}.payment_cells c WHERE c.here;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'this cell is in no directory, and has no map',
      HINT = 'If it was in one: railhead cell rejoin.';
  END IF;
  SELECT c.name INTO left_out FROM {cell}.payment_cells c
  WHERE NOT c.here AND c.name <> ALL (confirm_map.compared || confirm_map.gone)
  ORDER BY c.name
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the map was not compared with that of cell %s', left_out),
      HINT = 'Repeat this once that cell can be reached. If it is lost for good: railhead cell sync --without.';
  END IF;
  IF coalesce(confirm_map.reason, '') COLLATE "C" !~ E'[^ {unseen}]' AND NOT EXISTS (SELECT FROM {cell}.payment_cells c WHERE NOT c.here)
    AND NOT {cell}.server_is_settled() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'this cell knows no other cell: if it was restored to a time before they joined, it takes their participants',
      HINT = 'Set the connection strings of all cells, and repeat this. If there never was another one: --reason WHY.';
  END IF;
  INSERT INTO {cell}.payment_cell_checks (system_identifier, timeline, server_started_at, database_oid, table_oid,
    went_back, compared, gone, reason)
  SELECT s.system_identifier::text, {cell}.server_timeline(), pg_postmaster_start_time(), {cell}.database_oid(),
    '{cell}.payment_cell_checks'::regclass, {cell}.server_went_back(),
    ARRAY(SELECT DISTINCT c FROM unnest(confirm_map.compared) AS c ORDER BY c),
    ARRAY(SELECT DISTINCT g FROM unnest(confirm_map.gone) AS g ORDER BY g), confirm_map.reason
  FROM pg_control_system() s;
  IF confirm_map.gone <> '{}' THEN
    PERFORM {cell}.require_reason(confirm_map.reason);
  END IF;
  IF confirm_map.reason COLLATE "C" ~ E'[^ {unseen}]' THEN
    PERFORM {cell}.log_operator_act('CONFIRM_MAP', here.name, NULL, confirm_map.reason,
      jsonb_build_object('compared', to_jsonb(confirm_map.compared), 'gone', to_jsonb(confirm_map.gone)));
  END IF;
END
$$;
