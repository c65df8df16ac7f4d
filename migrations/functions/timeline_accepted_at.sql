-- timeline_accepted_at(system_identifier text, timeline bigint) -> timestamptz
--   The time at which that server and timeline were accepted, with the tables that hold the rows now; null if they were
--   not. Rows of a dump that was loaded, and those of a copied database, are in other tables.
-- reads:   payment_accepted_timelines.   locks: nothing.   called by: executor, callbacks.
CREATE OR REPLACE FUNCTION {cell}.timeline_accepted_at(system_identifier text, timeline bigint) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT t.accepted_at
  FROM {cell}.payment_accepted_timelines t
  WHERE t.system_identifier = $1 AND t.timeline = $2 AND t.table_oid = t.tableoid
    AND t.database_oid = {cell}.database_oid()
$$;
