-- map_is_confirmed() -> boolean
--   Whether the map of cells that this cell has is known to be complete on the present start and
--   timeline of its server: it was compared with the maps of all other cells since, no dump of it was loaded and its
--   database is no copy since, and no component has found since that the server went back in time (confirm_map). A cell that knows no other one
--   also has a complete map while its rows are known to be complete (server_is_settled), and one without a map always. In all other
--   cases a restore or a failover may have forgotten that a bucket was given away, and the cell takes
--   no instruction.
-- reads:   payment_cells, payment_cell_checks, and what server_went_back and server_is_settled read.
-- writes, locks: nothing.
-- called by: takes_participant, require_confirmed_map, suspend_outbox, executor, operator, readonly, auditor.
CREATE OR REPLACE FUNCTION {cell}.map_is_confirmed() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM {cell}.payment_cell_checks k
    WHERE k.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
      AND k.timeline = {cell}.server_timeline() AND k.server_started_at = pg_postmaster_start_time()
      AND k.table_oid = k.tableoid AND k.database_oid = {cell}.database_oid()
      AND k.went_back = {cell}.server_went_back())
    OR NOT EXISTS (SELECT FROM {cell}.payment_cells c WHERE NOT c.here)
      AND ({cell}.server_is_settled() OR NOT EXISTS (SELECT FROM {cell}.payment_cells));
END
$$;
