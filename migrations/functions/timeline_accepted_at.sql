-- timeline_accepted_at(system_identifier text, timeline bigint) -> timestamptz
--   The time at which that server and timeline were accepted; null if they were not.
-- reads:   payment_accepted_timelines.   locks: nothing.   called by: executor, callbacks.
CREATE OR REPLACE FUNCTION {cell}.timeline_accepted_at(system_identifier text, timeline bigint) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT t.accepted_at
  FROM {cell}.payment_accepted_timelines t
  WHERE t.system_identifier = $1 AND t.timeline = $2
$$;
