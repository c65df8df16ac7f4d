-- keep_heartbeat(kind text, name text, host text, version text, status text, activity text, stale_after_ms bigint,
--     host_clock timestamptz, looked_at timestamptz, vouched boolean)
--     -> setof (beats bigint, budget_version integer, claim_timeout_ms, start_within_ms, record_within_ms, drain_ms,
--         heartbeat_stale_ms integer)
--   Records the heartbeat of a component that has no privilege to write a table; heartbeat.sql is the
--   executor's. The Internet reaches such a component, so what it says of itself is bounded: host,
--   version and activity are cut, and a kind has at most 1,000 new names in an hour, or about so many where
--   several transactions come with new names at once. Returns no row if the server is not at the start
--   that the process has compared (looked_at; null: any), or if the name belongs to a component of another
--   kind, which the caller must neither keep alive nor hold up: its row is not locked.
-- errors:  RH002 stale_after_ms is not 0 to one day (0: the cell's heartbeat_stale), or the name not 1 to 200 bytes;
--          RH005 a new name, while 1,000 of the kind have beaten within the hour.
-- reads:   payment_outbox_settings, outbox_heartbeats.
-- writes:  outbox_heartbeats.   locks: its row.   called by: beat_api, beat_callbacks, beat_events.
CREATE OR REPLACE FUNCTION {cell}.keep_heartbeat(kind text, name text, host text, version text, status text,
  activity text, stale_after_ms bigint, host_clock timestamptz, looked_at timestamptz, vouched boolean)
RETURNS TABLE (beats bigint, budget_version integer, claim_timeout_ms integer, start_within_ms integer,
  record_within_ms integer,
  drain_ms integer, heartbeat_stale_ms integer)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  known text; -- the kind of the component that has the name
BEGIN
  IF (octet_length($2) BETWEEN 1 AND 200 AND $7 BETWEEN 0 AND 86400000) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a heartbeat needs a name of 1 to 200 bytes, and a time of 0 to 86400000 ms after which it is stale';
  END IF;
  SELECT h.kind INTO known FROM {cell}.outbox_heartbeats h WHERE h.name = $2 COLLATE "C";
  IF known <> $1 COLLATE "C" THEN
    RETURN;
  ELSIF known IS NULL AND (
    SELECT count(*)
    FROM (
      SELECT FROM {cell}.outbox_heartbeats h
      WHERE h.kind = $1 COLLATE "C" AND h.last_tick_at > clock_timestamp() - interval '1 hour'
      LIMIT 1000) n) = 1000
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005',
      MESSAGE = format('1000 processes of kind %s have beaten within an hour: no other name is taken', $1),
      HINT = 'Look for what starts over and over, or beats under invented names: v_queue_health.';
  END IF;
  RETURN QUERY
  WITH budget AS MATERIALIZED (
    SELECT s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms, s.heartbeat_stale_ms
    FROM {cell}.payment_outbox_settings s WHERE s.singleton
  ),
  beat AS (
    INSERT INTO {cell}.outbox_heartbeats AS h
      (name, kind, host, version, status, activity, stale_after_ms, clock_offset_ms, server_started_at, vouched,
        budget_version)
    SELECT $2, $1, left($3, 255), left($4, 255), $5, left($6, 500), greatest($7, s.heartbeat_stale_ms),
      (extract(epoch FROM clock_timestamp() - $8) * 1000)::bigint, pg_postmaster_start_time(), $10, s.budget_version
    FROM budget s
    WHERE coalesce($9 = pg_postmaster_start_time(), true)
    ON CONFLICT ON CONSTRAINT outbox_heartbeats_pk DO UPDATE SET last_tick_at = clock_timestamp(),
      status = excluded.status, activity = excluded.activity, clock_offset_ms = excluded.clock_offset_ms,
      beats = h.beats + 1, vouched = excluded.vouched, server_started_at = excluded.server_started_at,
      stale_after_ms = excluded.stale_after_ms, budget_version = excluded.budget_version, tick_before_start = CASE
        WHEN h.vouched AND h.server_started_at <> excluded.server_started_at THEN h.last_tick_at
        ELSE h.tick_before_start END
    WHERE h.kind = excluded.kind
    RETURNING h.beats
  )
  SELECT b.beats, s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms,
    s.heartbeat_stale_ms
  FROM beat b CROSS JOIN budget s;
END
$$;
