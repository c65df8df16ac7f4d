-- recall_memory(name text, beats bigint, beaten_at timestamptz, outbox_id uuid, attempt_no integer,
--               claimed_at timestamptz, own_name text)
--     -> (beats_missing boolean, claim_missing boolean, vouched boolean, known boolean, outdated boolean,
--         awaited text[], awaited_ms bigint, patience_ms bigint)
--   Whether the data that a component remembers as confirmed is present, and which other components
--   can vouch for this start of the server. name, beats and beaten_at are of the last heartbeat
--   that the component remembers, and the next three arguments of its last claim; null if there is
--   none. own_name is its name now. Both names are those of rows: see keep_heartbeat. A login that may
--   take callbacks and can't send may leave out the kind, as binaries of before migration 44 do: for a relayer, rows of
--   an endpoint of its name are none of its own.
--
--   beats_missing   The heartbeat row counts fewer, or does not exist. The reaper may have removed
--                   a heartbeat older than a day: its absence, or a newer row, proves nothing.
--   claim_missing   The row of the last claim does not exist. A claim older than a day may have
--                   left the archive with its month.
--   vouched         A relayer or a reaper has compared this start with its memory. Others do not vouch
--                   for senders: the Internet reaches callback endpoints and APIs.
--   known           Some relayer has run on this cell, under any name.
--   outdated        Some relayer had a heartbeat before this start and more than 15 minutes after
--                   the memory was made, which is longer than a relayer goes without a check; or
--                   the heartbeat is older than a day and does not exist, so that it proves nothing.
--   awaited         Relayers that were running when the server went down and have not compared
--                   this start yet. The time at which it went down is taken from relayers that
--                   vouched for an earlier start; other heartbeats may be of a start that no
--                   relayer compared.
--   awaited_ms      The longest time without a heartbeat after which one of these counts as dead.
--   patience_ms     How much longer components without a memory wait: heartbeat_stale.
-- reads:   outbox_heartbeats, payment_outbox_attempts, payment_outbox_settings, the catalog.   locks: nothing.
-- called by: executor, callbacks.
CREATE OR REPLACE FUNCTION {cell}.recall_memory(name text, beats bigint, beaten_at timestamptz,
  outbox_id uuid, attempt_no integer, claimed_at timestamptz, own_name text)
RETURNS TABLE (beats_missing boolean, claim_missing boolean, vouched boolean, known boolean, outdated boolean,
  awaited text[], awaited_ms bigint, patience_ms bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH beat AS MATERIALIZED (
    SELECT h.name, h.kind, h.status, h.last_tick_at, h.stale_after_ms,
      h.server_started_at = pg_postmaster_start_time() AS here,
      h.vouched AND h.server_started_at = pg_postmaster_start_time() AS vouched,
      h.kind = 'relayer' AND h.vouched AND h.server_started_at <> pg_postmaster_start_time() AS vouched_before,
      CASE WHEN h.server_started_at = pg_postmaster_start_time() THEN h.tick_before_start
        ELSE h.last_tick_at END AS before_start
    FROM {cell}.outbox_heartbeats h
    WHERE h.kind IN ('relayer', 'reaper')
  ),
  own AS MATERIALIZED (
    SELECT h.beats, h.last_tick_at
    FROM {cell}.outbox_heartbeats h
    WHERE h.name = $1 COLLATE "C"
    UNION ALL
    SELECT h.beats, h.last_tick_at
    FROM {cell}.outbox_heartbeats h
    WHERE h.name = 'callback:' || $1 COLLATE "C" AND h.kind = 'callback' AND (
      SELECT bool_or(r.rolname = 'railhead_callbacks') AND bool_and(r.rolname <> 'railhead_executor')
      FROM pg_roles r
      WHERE r.rolname IN ('railhead_callbacks', 'railhead_executor') AND pg_has_role(session_user, r.oid, 'MEMBER'))
  ),
  awaited AS MATERIALIZED (
    SELECT b.name, b.stale_after_ms
    FROM beat b
    WHERE b.kind = 'relayer' AND b.status <> 'stopped' AND NOT b.here AND b.name <> $7
      AND b.last_tick_at > (SELECT coalesce(max(m.last_tick_at) FILTER (WHERE m.vouched_before), '-infinity')
        FROM beat m) - least(b.stale_after_ms, 86400000) * interval '1 millisecond'
    ORDER BY b.name
    LIMIT 20
  )
  SELECT
    $1::text IS NOT NULL
      AND NOT EXISTS (SELECT FROM own o WHERE o.beats >= $2::bigint)
      AND ($3::timestamptz > clock_timestamp() - interval '1 day'
        OR EXISTS (SELECT FROM own o WHERE o.last_tick_at <= $3)) AS beats_missing,
    $4::uuid IS NOT NULL AND ($6::timestamptz > clock_timestamp() - interval '1 day' OR NOT {cell}.left_the_archive($4))
      AND (
      SELECT true FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $4 AND a.attempt_no = $5::integer AND a.claimed_at = $6
      LIMIT 1) IS NULL AS claim_missing,
    EXISTS (SELECT FROM beat b WHERE b.vouched) AS vouched,
    EXISTS (SELECT FROM beat b WHERE b.kind = 'relayer') AS known,
    coalesce((SELECT max(b.before_start) FROM beat b
      WHERE b.kind = 'relayer') > $3::timestamptz + interval '15 minutes', false)
      OR coalesce($3::timestamptz <= clock_timestamp() - interval '1 day', false)
        AND NOT EXISTS (SELECT FROM own) AS outdated,
    ARRAY(SELECT w.name FROM awaited w ORDER BY w.name) AS awaited,
    coalesce((SELECT max(w.stale_after_ms) FROM awaited w), 0) AS awaited_ms,
    (SELECT s.heartbeat_stale_ms::bigint FROM {cell}.payment_outbox_settings s WHERE s.singleton) AS patience_ms
$$;
