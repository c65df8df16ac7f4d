-- map_is_confirmed() -> boolean
--   Whether the map of cells that this cell has is known to be complete on the present start and
--   timeline of its server: it was compared with the maps of all other cells since (confirm_map), or
--   the rows of this database are known to be complete (server_is_settled). Otherwise a restore or a
--   failover may have forgotten that a bucket was given away.
-- reads:   payment_cell_checks, and what server_is_settled reads.   writes, locks: nothing.
-- called by: admits_participant, operator, readonly, auditor.
CREATE OR REPLACE FUNCTION {cell}.map_is_confirmed() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  RETURN {cell}.server_is_settled() OR EXISTS (
    SELECT FROM {cell}.payment_cell_checks k
    WHERE k.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
      AND k.timeline = {cell}.server_timeline() AND k.server_started_at = pg_postmaster_start_time());
END
$$;
