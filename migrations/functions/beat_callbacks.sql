-- beat_callbacks(name text, host text, version text, status text, activity text, stale_after_ms bigint,
--     host_clock timestamptz, looked_at timestamptz, vouched boolean)
--     -> setof (beats bigint, budget_version integer, claim_timeout_ms, start_within_ms, record_within_ms, drain_ms,
--         heartbeat_stale_ms integer)
--   Records the heartbeat of a callback endpoint, as keep_heartbeat does. Returns the number of heartbeats
--   that the row counts, and the time budget of the cell; no row in the cases of keep_heartbeat. The endpoint
--   remembers that number: one that a crash took back would look like lost rows, so it is durable.
-- errors:  those of keep_heartbeat.
-- reads, writes, locks: as keep_heartbeat.   called by: callbacks.
CREATE OR REPLACE FUNCTION {cell}.beat_callbacks(name text, host text, version text, status text, activity text,
  stale_after_ms bigint, host_clock timestamptz, looked_at timestamptz, vouched boolean)
RETURNS TABLE (beats bigint, budget_version integer, claim_timeout_ms integer, start_within_ms integer,
  record_within_ms integer,
  drain_ms integer, heartbeat_stale_ms integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  PERFORM {cell}.require_durable_commit();
  RETURN QUERY
  SELECT k.beats, k.budget_version, k.claim_timeout_ms, k.start_within_ms, k.record_within_ms, k.drain_ms,
    k.heartbeat_stale_ms
  FROM {cell}.keep_heartbeat('callback', $1, $2, $3, $4, $5, $6, $7, $8, $9) k;
END
$$;
