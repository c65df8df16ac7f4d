-- Migration 44, names by kind. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function beat_callbacks
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
-- end of beat_callbacks

-- function keep_heartbeat
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
-- end of keep_heartbeat

-- function recall_memory
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
    WHERE h.name = 'callback:' || $1 COLLATE "C" AND h.kind = 'callback' AND EXISTS (
      SELECT FROM pg_roles r WHERE r.rolname = 'railhead_callbacks' AND pg_has_role(session_user, r.oid, 'MEMBER'))
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
-- end of recall_memory

-- function record_callback
CREATE OR REPLACE FUNCTION {cell}.record_callback(report jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF (report ->> 'state' = 'DISPATCHED' AND coalesce(report ->> 'result', 'EXECUTED') IN ('ACCEPTED', 'EXECUTED')
    OR report ->> 'state' = 'FAILED' AND report ->> 'result' = 'REFUSED') IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a callback must report that a payment was executed or that it was refused';
  END IF;
  IF coalesce(report ->> 'rail_type', '') = '' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a callback must name the rail that reports: it is evidence only of payments of that rail';
  END IF;
  RETURN {cell}.record_late_outcome((
    SELECT jsonb_object_agg(e.key, e.value)
      || jsonb_build_object('dead_reason', CASE report ->> 'state' WHEN 'FAILED' THEN 'FAILED' END,
        'worker_id', coalesce((
          SELECT report ->> 'worker_id' FROM {cell}.outbox_heartbeats h
          WHERE h.name = 'callback:' || (report ->> 'worker_id') AND h.kind = 'callback'
            AND NOT EXISTS (SELECT FROM {cell}.outbox_heartbeats w WHERE w.name = report ->> 'worker_id')
            AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = report ->> 'worker_id')), session_user))
      || '{"outcome_unknown": false, "provisional": false, "counts_send": false, "delay_ms": 0, "send_count": 0, '
        '"inquiry_count": 0}'
    FROM jsonb_each(report) e
    WHERE e.key IN ('attempt_id', 'outbox_id', 'rail_type', 'state', 'result', 'rail_reference', 'rail_code',
      'error_message')));
END
$$;
-- end of record_callback

-- function take_event_endpoint
CREATE OR REPLACE FUNCTION {cell}.take_event_endpoint(endpoint_id text, worker_id text, lease_ms bigint,
  since timestamptz)
RETURNS TABLE (epoch bigint, held_by text, paused_at timestamptz, pause_reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  found_row {cell}.payment_event_endpoints;
BEGIN
  IF coalesce($2, '') = '' OR coalesce($1, '') !~ '^[a-z0-9][a-z0-9_-]{0,63}$' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a worker needs a name, and an endpoint an id of 1 to 64 characters of a-z, 0-9, _ and -',
      HINT = 'Give each endpoint of the file such an id.';
  ELSIF $3 IS NULL OR $3 NOT BETWEEN 1 AND 600000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = 'a lease must be 1 ms to 10 min',
      HINT = 'Take a shorter lease, and renew it.';
  END IF;
  SELECT e.* INTO found_row FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 FOR UPDATE;
  IF NOT FOUND THEN
    IF (SELECT count(*) FROM {cell}.payment_event_endpoints) >= 1000 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = 'there are already 1000 endpoints',
        HINT = 'Use fewer endpoints, one for each caller.';
    END IF;
    PERFORM {cell}.require_durable_commit();
    INSERT INTO {cell}.payment_event_endpoints AS e (endpoint_id, place_system, place_xact, place_outbox_id,
      place_attempt_no, place_attempt_id)
    SELECT $1, s.system_identifier::text,
      coalesce(CASE WHEN $4 IS NULL THEN n.xact ELSE {cell}.outcome_feed_since($4) END, '0'),
      CASE WHEN $4 IS NULL THEN n.outbox_id END, CASE WHEN $4 IS NULL THEN n.attempt_no END, CASE WHEN $4 IS NULL
        THEN n.attempt_id END
    FROM pg_control_system() s
    CROSS JOIN {cell}.outcome_newest() n
    ON CONFLICT ON CONSTRAINT payment_event_endpoints_pk DO NOTHING;
    SELECT e.* INTO found_row FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 FOR UPDATE;
  END IF;
  IF found_row.worker_id <> $2 AND found_row.lease_until > clock_timestamp() THEN
    RETURN QUERY SELECT NULL::bigint, found_row.worker_id, found_row.paused_at, found_row.pause_reason;
    RETURN;
  END IF;
  RETURN QUERY
  UPDATE {cell}.payment_event_endpoints e
  SET worker_id = $2, lease_until = clock_timestamp() + $3 * interval '1 ms', epoch = e.epoch + CASE
    WHEN e.worker_id = $2 THEN 0 ELSE 1 END
  WHERE e.endpoint_id = $1
  RETURNING e.epoch, e.worker_id, e.paused_at, e.pause_reason;
END
$$;
-- end of take_event_endpoint

-- view v_queue_health
CREATE OR REPLACE VIEW {cell}.v_queue_health AS
WITH backlog AS MATERIALIZED (
  SELECT b.rail_type, b.state, b.count, b.at_least
  FROM {cell}.v_outbox_backlog b
),
rail AS MATERIALIZED (
  SELECT r.rail_type, r.paused OR e.paused AS paused,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state NOT IN ('DISPATCHING', 'INQUIRING')), 0)::bigint AS pending,
    coalesce((SELECT bool_or(b.at_least) FROM backlog b WHERE b.rail_type = r.rail_type), false) AS at_least,
    CASE WHEN d.due_at <= clock_timestamp() THEN clock_timestamp() - d.due_at END AS oldest_due_age,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state IN ('DISPATCHING', 'INQUIRING')), 0)::bigint AS in_flight,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state IN ('ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN')), 0)::bigint
      + (SELECT count(*)
        FROM (
          SELECT d.outbox_id FROM {cell}.payment_dead_letters d
          WHERE d.rail_type = r.rail_type AND d.reason = 'OUTCOME_UNKNOWN' AND d.status NOT IN ('manual_replay', 'resolved')
          LIMIT 100000) u
        -- An instruction that is pending for an inquiry is counted in the backlog.
        WHERE (SELECT true FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = u.outbox_id
          LIMIT 1) IS NULL) AS outcome_unknown,
    coalesce((SELECT sum(s.count) FROM {cell}.v_dead_letter_summary s WHERE s.rail_type = r.rail_type),
      0)::bigint AS dead_letters
  FROM {cell}.payment_rails r
  CROSS JOIN (SELECT g.paused FROM {cell}.payment_rails g WHERE g.rail_type = '*') e
  CROSS JOIN LATERAL (
    SELECT min(f.next_attempt_at) AS due_at
    FROM (VALUES (0::smallint), (1), (2)) AS v(priority)
    CROSS JOIN LATERAL (
      SELECT p.next_attempt_at
      FROM {cell}.payment_outbox_pending p
      WHERE p.rail_type = r.rail_type AND p.priority = v.priority
      ORDER BY p.next_attempt_at
      LIMIT 1) f) d
  WHERE r.rail_type <> '*'
),
component AS MATERIALIZED (
  SELECT CASE WHEN h.kind IN ('relayer', 'reaper') THEN h.name ELSE substr(h.name, length(h.kind) + 2) END AS name,
    h.kind, h.host, h.version, h.started_at, h.last_tick_at, h.clock_offset_ms,
    concat_ws(', ', h.status, nullif(h.activity, '')) AS activity,
    clock_timestamp() - h.last_tick_at AS age,
    CASE
      WHEN h.status = 'stopped' THEN 'stopped'
      WHEN h.last_tick_at <= clock_timestamp() - least(h.stale_after_ms, 86400000) * interval '1 millisecond' THEN 'stale'
      WHEN h.last_tick_at <= clock_timestamp() - least(h.stale_after_ms, 86400000) * interval '1 millisecond' / 2 THEN 'warning'
      ELSE 'fresh'
    END AS status
  FROM {cell}.outbox_heartbeats h
  WHERE h.last_tick_at > clock_timestamp() - CASE h.status WHEN 'stopped' THEN interval '1 hour'
    ELSE interval '1 day' END
)
SELECT 'cell' AS scope, '*' AS name,
  CASE WHEN bool_or(r.paused) THEN 'paused' WHEN count(*) = 0 THEN 'no rails' ELSE 'running' END AS status,
  sum(r.pending)::bigint AS pending, bool_or(r.at_least) AS at_least, max(r.oldest_due_age) AS oldest_due_age,
  sum(r.in_flight)::bigint AS in_flight, (SELECT clock_timestamp() - min(c.claimed_at)
    FROM {cell}.payment_outbox_claims c) AS oldest_claim_age,
  sum(r.outcome_unknown)::bigint AS outcome_unknown,
  (SELECT coalesce(sum(s.count), 0) FROM {cell}.v_dead_letter_summary s)::bigint AS dead_letters,
  NULL::text AS kind, NULL::text AS host, NULL::text AS version, NULL::timestamptz AS started_at,
  NULL::timestamptz AS last_beat_at, NULL::interval AS beat_age, NULL::bigint AS clock_offset_ms, NULL::text AS activity
FROM rail r
UNION ALL
SELECT 'rail', r.rail_type, CASE WHEN r.paused THEN 'paused' ELSE 'running' END,
  r.pending, r.at_least, r.oldest_due_age, r.in_flight, NULL, r.outcome_unknown, r.dead_letters,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM rail r
UNION ALL
SELECT 'component', c.name, c.status, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  c.kind, c.host, c.version, c.started_at, c.last_tick_at, c.age, c.clock_offset_ms, c.activity
FROM component c;
COMMENT ON VIEW {cell}.v_queue_health IS
  'The overview for an operator on call: one row for the cell, one for each rail, and one for each component with '
  'a heartbeat in the last day (in the last hour, if it stopped in order). A component is stale after its own '
  'stale_after_ms, and has the status warning after half of it.';
-- end of v_queue_health

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 44, serves 13'
$$;
-- end of schema_version

-- A component that is neither a relayer nor a reaper has a row that is named by its kind and its name. This holds for
-- the functions of before too: their INSERT may wait for this lock, and fails behind it. The next heartbeat goes on.
ALTER TABLE {cell}.outbox_heartbeats ADD CONSTRAINT outbox_heartbeats_name
  CHECK (kind IN ('relayer', 'reaper') OR starts_with(name, kind || ':')) NOT VALID;
-- Such a name could not beat since migration 41, and with its kind it may be too long for the index.
DELETE FROM {cell}.outbox_heartbeats h WHERE h.kind NOT IN ('relayer', 'reaper') AND octet_length(h.name) > 200;
-- The longest first: what has the new name of another row already gets a new one before.
DO $$
DECLARE
  each record;
BEGIN
  FOR each IN
    SELECT h.name, h.kind FROM {cell}.outbox_heartbeats h
    WHERE h.kind NOT IN ('relayer', 'reaper')
    ORDER BY octet_length(h.name) DESC
  LOOP
    UPDATE {cell}.outbox_heartbeats h SET name = each.kind || ':' || each.name WHERE h.name = each.name;
  END LOOP;
END
$$;
ALTER TABLE {cell}.outbox_heartbeats VALIDATE CONSTRAINT outbox_heartbeats_name;
COMMENT ON TABLE {cell}.outbox_heartbeats IS
  'One row for each process start of a component. name is its worker_id; its kind, a colon and its worker_id, if it is '
  'neither a relayer nor a reaper.';
