-- rows_are_accepted() -> boolean
--   Whether a server and timeline were accepted with the tables that hold the rows now (timeline_accepted_at). A claim
--   asks in its own snapshot: a dump may be loaded, or a copy of the database take its place, between two looks of a
--   relayer at the server, and what the dump had not seen sent would be sent again.
-- reads:   payment_accepted_timelines.   locks: nothing.
-- called by: executor.
CREATE OR REPLACE FUNCTION {cell}.rows_are_accepted() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT EXISTS (
    SELECT FROM {cell}.payment_accepted_timelines t
    WHERE {cell}.timeline_accepted_at(t.system_identifier, t.timeline) IS NOT NULL)
$$;
