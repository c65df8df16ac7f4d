-- keep_heartbeat(kind text, name text, host text, version text, status text, activity text, stale_after_ms bigint,
--     host_clock timestamptz, looked_at timestamptz, vouched boolean)
--     -> setof (beats bigint, budget_version integer, claim_timeout_ms, start_within_ms, record_within_ms, drain_ms,
--         heartbeat_stale_ms integer)
--   Records the heartbeat of a component that has no privilege to write a table; heartbeat.sql is the
--   executor's. Its row is named by its kind, a colon and the name, so that it has no row in common with a relayer
--   or a reaper: it neither takes nor keeps alive nor locks one of theirs. The Internet reaches such a component, so
--   what it says of itself is bounded: host, version and activity are cut, and a new name is taken while fewer than
--   1,000 of its kind run and fewer than 4,000 names of it have beaten within the hour, or about so many where
--   several transactions come with new names at once. One that has stopped, or has not beaten for 10 minutes, does
--   not run: what starts over and over does not soon keep out what is to replace it. Returns no row if the server
--   is not at the start that the process has compared (looked_at; null: any), or if a component of another kind has
--   the name of the row.
-- errors:  RH002 stale_after_ms is not 0 to one day (0: the cell's heartbeat_stale), or the name not 1 to 200 bytes;
--          RH005 a new name, while as many of the kind run or have beaten.
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
  own   CONSTANT text COLLATE "C" := $1 || ':' || $2; -- the name of its row
  known text; -- the kind of the component that has this row
BEGIN
  IF (octet_length($2) BETWEEN 1 AND 200 AND $7 BETWEEN 0 AND 86400000) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a heartbeat needs a name of 1 to 200 bytes, and a time of 0 to 86400000 ms after which it is stale';
  END IF;
  SELECT h.kind INTO known FROM {cell}.outbox_heartbeats h WHERE h.name = own;
  IF known <> $1 COLLATE "C" THEN
    RETURN;
  ELSIF known IS NULL AND (
    SELECT count(*)
    FROM (
      SELECT FROM {cell}.outbox_heartbeats h
      WHERE h.kind = $1 COLLATE "C" AND h.status <> 'stopped'
        AND h.last_tick_at > clock_timestamp() - interval '10 minutes'
      LIMIT 1000) n) = 1000
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005',
      MESSAGE = format('1000 processes of kind %s have beaten within 10 minutes and not stopped: no other name is taken',
        $1),
      HINT = 'Look for what starts over and over, or beats under invented names: v_queue_health.';
  ELSIF known IS NULL AND (
    SELECT count(*)
    FROM (
      SELECT FROM {cell}.outbox_heartbeats h
      WHERE h.kind = $1 COLLATE "C" AND h.last_tick_at > clock_timestamp() - interval '1 hour'
      LIMIT 4000) n) = 4000
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005',
      MESSAGE = format('processes of kind %s have beaten under 4000 names within an hour: no other name is taken', $1),
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
    SELECT own, $1, left($3, 255), left($4, 255), $5, left($6, 500), greatest($7, s.heartbeat_stale_ms),
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
