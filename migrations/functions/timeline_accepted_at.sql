-- timeline_accepted_at(system_identifier text, timeline bigint) -> timestamptz
--   The time at which that server and timeline were accepted, with the tables that hold the rows now; null if they were
--   not. Rows of a dump that was loaded, and those of a copied database, are in other tables. That the cell was made here
--   counts while no row says that other tables were accepted: with such a row, rows were loaded into the new tables.
-- reads:   payment_accepted_timelines.   locks: nothing.
-- called by: executor, callbacks, server_is_settled, suspend_outbox, accept_timeline, rows_are_accepted,
--          require_settled_server.
CREATE OR REPLACE FUNCTION {cell}.timeline_accepted_at(system_identifier text, timeline bigint) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT t.accepted_at
  FROM {cell}.payment_accepted_timelines t
  WHERE t.system_identifier = $1 AND t.timeline = $2 AND t.table_oid = t.tableoid
    AND t.database_oid = {cell}.database_oid()
    AND (NOT t.made OR NOT EXISTS (
      SELECT FROM {cell}.payment_accepted_timelines o
      WHERE o.table_oid <> o.tableoid OR o.database_oid <> {cell}.database_oid()))
$$;
