-- beat_api(name text, host text, version text, status text, activity text, stale_after_ms bigint,
--     host_clock timestamptz, looked_at timestamptz, vouched boolean)
--     -> setof (beats bigint, budget_version integer, claim_timeout_ms, start_within_ms, record_within_ms, drain_ms,
--         heartbeat_stale_ms integer)
--   Records the heartbeat of an API process, which has no privilege to write a table; heartbeat.sql
--   is the executor's. Returns the number of heartbeats that the row counts, and the time budget of
--   the cell. Returns no row if the server is not at the start that the process has compared
--   (looked_at; null: any), or if the name belongs to a component of another kind, which the caller
--   must not keep alive.
-- reads:   payment_outbox_settings.
-- writes:  outbox_heartbeats.   locks: its row.   called by: api.
CREATE OR REPLACE FUNCTION {cell}.beat_api(name text, host text, version text, status text, activity text,
  stale_after_ms bigint, host_clock timestamptz, looked_at timestamptz, vouched boolean)
RETURNS TABLE (beats bigint, budget_version integer, claim_timeout_ms integer, start_within_ms integer,
  record_within_ms integer,
  drain_ms integer, heartbeat_stale_ms integer)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH budget AS MATERIALIZED (
    SELECT s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms, s.heartbeat_stale_ms
    FROM {cell}.payment_outbox_settings s WHERE s.singleton
  ),
  beat AS (
    INSERT INTO {cell}.outbox_heartbeats AS h
      (name, kind, host, version, status, activity, stale_after_ms, clock_offset_ms, server_started_at, vouched,
        budget_version)
    SELECT $1, 'ingest', $2, $3, $4, $5, greatest($6, s.heartbeat_stale_ms),
      (extract(epoch FROM clock_timestamp() - $7) * 1000)::bigint, pg_postmaster_start_time(), $9, s.budget_version
    FROM budget s
    WHERE coalesce($8 = pg_postmaster_start_time(), true)
    ON CONFLICT ON CONSTRAINT outbox_heartbeats_pk DO UPDATE SET last_tick_at = clock_timestamp(),
      status = excluded.status, activity = excluded.activity, clock_offset_ms = excluded.clock_offset_ms,
      beats = h.beats + 1, vouched = excluded.vouched, server_started_at = excluded.server_started_at,
      stale_after_ms = excluded.stale_after_ms, budget_version = excluded.budget_version, tick_before_start = CASE
        WHEN h.vouched AND h.server_started_at <> excluded.server_started_at THEN h.last_tick_at
        ELSE h.tick_before_start END
    WHERE h.kind = 'ingest'
    RETURNING h.beats
  )
  SELECT b.beats, s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms,
    s.heartbeat_stale_ms
  FROM beat b CROSS JOIN budget s
$$;
