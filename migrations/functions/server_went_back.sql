-- server_went_back() -> integer
--   How often a component has found, on the present start of the server, that its data went back in
--   time, as a snapshot of a running machine does that is put back.
-- reads:   payment_outbox_suspensions.   writes, locks: nothing.
-- called by: map_server, map_is_confirmed, confirm_map, refresh_outbox_rules.
CREATE OR REPLACE FUNCTION {cell}.server_went_back() RETURNS integer
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT count(*)::integer
  FROM {cell}.payment_outbox_suspensions s
  WHERE s.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND s.server_started_at = pg_postmaster_start_time()
$$;
