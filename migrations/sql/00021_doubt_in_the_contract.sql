-- Migration 21, doubt in the contract. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function prune
CREATE OR REPLACE FUNCTION {cell}.prune(
  what text, before timestamptz, reason text, after text, batch integer, dry_run boolean)
RETURNS TABLE (seen integer, pruned integer, kept_open integer, kept_recent integer, kept_needed integer, next_key text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  floor_age CONSTANT interval := '7 days';
  batch_max CONSTANT integer := 10000;
  chosen    uuid[];
  gone      text[];
BEGIN
  PERFORM {cell}.require_reason($3);
  IF $1 IN ('attempts', 'archive', 'instructions', 'keys', 'operator-log') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('%s: the archive is append-only, and nothing in it is pruned', $1),
      HINT = 'Detach the partitions of a month, as docs/operations.md says. The registry and the operator log stay.';
  END IF;
  IF $1 IS NULL OR $1 NOT IN ('dead-letters', 'heartbeats') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'dead-letters and heartbeats can be pruned, and nothing else';
  END IF;
  IF $2 IS NULL OR NOT isfinite($2) OR $2 > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the time before which is pruned is missing, infinite or in the future',
      HINT = 'Give a time that is more than 7 days ago.';
  END IF;
  IF $2 > clock_timestamp() - floor_age THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the time before which is pruned is within the last 7 days',
      HINT = 'What was closed in the last 7 days stays for those who hand over, and for the next reconciliation.';
  END IF;
  IF $5 IS NULL OR $5 NOT BETWEEN 1 AND batch_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = format('a batch has 1 to %s rows', batch_max);
  END IF;
  PERFORM {cell}.require_settled_server('pruning');
  PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.prune', 0));

  IF $1 = 'heartbeats' THEN
    SELECT coalesce(array_agg(b.name), '{}'), count(*),
      count(*) FILTER (WHERE b.last_tick_at >= $2)
    INTO gone, seen, kept_recent
    FROM (
      SELECT h.name, h.last_tick_at FROM {cell}.outbox_heartbeats h
      WHERE h.name > coalesce($4, '') COLLATE "C"
      ORDER BY h.name
      LIMIT $5) b;
    IF seen = $5 THEN
      next_key := gone[seen];
    END IF;
    SELECT coalesce(array_agg(o.name), '{}') INTO gone
    FROM (
      SELECT h.name
      FROM {cell}.outbox_heartbeats h
      WHERE h.name = ANY (gone) AND h.last_tick_at < $2
        AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_claims f WHERE f.worker_id = h.name)
        AND (h.kind <> 'relayer' OR EXISTS (
          SELECT FROM {cell}.outbox_heartbeats n
          WHERE n.kind = 'relayer' AND (n.last_tick_at, n.name) > (h.last_tick_at, h.name) AND n.vouched >= h.vouched))
        AND (h.kind = 'callback' OR NOT h.vouched OR EXISTS (
          SELECT FROM {cell}.outbox_heartbeats n
          WHERE n.kind <> 'callback' AND n.vouched AND (n.last_tick_at, n.name) > (h.last_tick_at, h.name)
            AND n.server_started_at >= h.server_started_at))
      ORDER BY h.name
      FOR UPDATE OF h SKIP LOCKED) o;
    pruned := cardinality(gone);
    kept_open := 0;
    kept_needed := seen - kept_recent - pruned;
    IF dry_run IS NOT TRUE THEN
      DELETE FROM {cell}.outbox_heartbeats h WHERE h.name = ANY (gone) AND h.last_tick_at < $2;
      GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
  ELSE
    SELECT coalesce(array_agg(b.outbox_id), '{}'), count(*), count(*) FILTER (WHERE NOT b.closed),
      count(*) FILTER (WHERE b.closed AND b.updated_at >= $2)
    INTO chosen, seen, kept_open, kept_recent
    FROM (
      SELECT d.outbox_id, d.status IN ('manual_replay', 'resolved') AS closed, d.updated_at
      FROM {cell}.payment_dead_letters d
      WHERE $4 IS NULL OR d.outbox_id > $4::uuid
      ORDER BY d.outbox_id
      LIMIT $5) b;
    IF seen = $5 THEN
      next_key := chosen[seen]::text;
    END IF;
    -- The lock comes before the row is judged: open_dead_letters, which opens it again, takes it too.
    SELECT coalesce(array_agg(o.outbox_id), '{}') INTO chosen
    FROM (
      SELECT d.outbox_id
      FROM {cell}.payment_dead_letters d
      WHERE d.outbox_id = ANY (chosen) AND d.status IN ('manual_replay', 'resolved') AND d.updated_at < $2
      ORDER BY d.outbox_id
      FOR UPDATE SKIP LOCKED) o;
    SELECT coalesce(array_agg(d.outbox_id), '{}') INTO chosen
    FROM {cell}.payment_dead_letters d
    LEFT JOIN LATERAL (
      SELECT a.state FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = d.outbox_id AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC
      LIMIT 1) last ON true
    WHERE d.outbox_id = ANY (chosen)
      AND EXISTS (SELECT FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = d.outbox_id)
      AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = d.outbox_id)
      AND CASE
        WHEN last.state IS NOT NULL THEN last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED') AND last.state <> 'FAILED'
          AND d.reason <> 'UNCLAIMABLE'
          AND (EXISTS (SELECT FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = d.outbox_id)
            OR EXISTS (SELECT FROM {cell}.payment_outbox_attempts a
              WHERE a.outbox_id = d.outbox_id AND a.payload IS NOT NULL))
        ELSE {cell}.left_the_archive(d.outbox_id) END;
    pruned := cardinality(chosen);
    kept_needed := seen - kept_open - kept_recent - pruned;
    IF dry_run IS NOT TRUE THEN
      DELETE FROM {cell}.payment_dead_letters d WHERE d.outbox_id = ANY (chosen);
      GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
  END IF;
  IF dry_run IS NOT TRUE AND pruned > 0 THEN
    PERFORM {cell}.log_operator_act('PRUNE', $1, NULL, $3,
      jsonb_build_object('before', $2, 'pruned', pruned, 'seen', seen,
        'removed', CASE $1 WHEN 'heartbeats' THEN to_jsonb(gone) ELSE to_jsonb(chosen) END));
  END IF;
  RETURN NEXT;
END
$$;
-- end of prune

-- view outbox_contract
CREATE OR REPLACE VIEW {cell}.outbox_contract AS
SELECT
  k.outbox_id                                                       AS event_id,
  'instruction.' || coalesce(p.rail_type, last.rail_type, i.rail_type) AS event_type,
  k.participant_id                                                  AS partition_key,
  coalesce(i.payload, p.payload, copy.payload)                      AS payload,
  coalesce(i.headers, p.headers, copy.headers)                      AS headers,
  v.status,
  (SELECT count(*) FROM {cell}.payment_outbox_attempts s
   WHERE s.outbox_id = k.outbox_id AND s.state = 'DISPATCHING')::integer AS attempts,
  CASE
    WHEN v.what = 'CONFLICT' THEN 'CONFLICT'
    WHEN v.what = 'QUARANTINED' THEN 'UNCLAIMABLE'
    WHEN v.what = 'LOST' THEN 'LOST'
    WHEN v.status = 'DELIVERED' THEN NULL
    WHEN last.state = 'CANCELLED' THEN 'CANCELLED'
    -- A PARKED row has the code of the answer that did not settle it, which is a refusal like those of FAILED rows.
    WHEN last.state = 'PARKED' AND said.code IS DISTINCT FROM 'TAMPERED' THEN 'OUTCOME_UNKNOWN'
    ELSE said.code
  END                                                               AS last_error,
  CASE WHEN v.what = 'WAITS' THEN p.next_attempt_at END             AS available_at,
  CASE WHEN v.what = 'CLAIMED' THEN last.worker_id END              AS locked_by,
  CASE WHEN v.what = 'CLAIMED' THEN last.claimed_at END             AS locked_at,
  CASE WHEN v.status = 'DELIVERED' THEN coalesce(last.completed_at, last.created_at) END AS delivered_at,
  k.created_at,
  greatest(k.created_at, newest.created_at, d.updated_at, acted.at) AS updated_at
FROM {cell}.payment_outbox_keys k
LEFT JOIN LATERAL (
  SELECT w.rail_type, w.next_attempt_at, w.attempt_count, w.outcome_unknown, w.payload, w.headers, true AS here
  FROM {cell}.payment_outbox_pending w
  WHERE w.outbox_id = k.outbox_id
  LIMIT 1) p ON true
LEFT JOIN LATERAL (
  SELECT a.rail_type, a.state, a.worker_id, a.claimed_at, a.completed_at, a.created_at
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = k.outbox_id AND a.state <> 'LATE_OUTCOME'
  ORDER BY a.attempt_no DESC
  LIMIT 1) last ON true
LEFT JOIN LATERAL (
  SELECT a.attempt_no, a.created_at
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = k.outbox_id
  ORDER BY a.attempt_no DESC
  LIMIT 1) newest ON true
-- The latest row that is neither a claim nor evidence that came late, as a code. Text that a rail or
-- a person wrote is not shown.
LEFT JOIN LATERAL (
  SELECT CASE
    WHEN a.error_code ~ '^[A-Z][A-Z0-9_]{0,63}$' THEN a.error_code
    WHEN a.state = 'ACCEPTED' THEN NULL
    WHEN a.state = 'REPLAYED' THEN NULL
    ELSE coalesce(a.result, a.state::text)
  END AS code
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = k.outbox_id AND a.state NOT IN ('LATE_OUTCOME', 'DISPATCHING', 'INQUIRING')
  ORDER BY a.attempt_no DESC
  LIMIT 1) said ON true
LEFT JOIN LATERAL (
  SELECT n.rail_type, n.payload, n.headers
  FROM {cell}.payment_outbox_instructions n
  WHERE n.outbox_id = k.outbox_id
  LIMIT 1) i ON true
-- Rows that are older than payment_outbox_instructions hold their own copy.
LEFT JOIN LATERAL (
  SELECT a.payload, a.headers
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = k.outbox_id AND a.payload IS NOT NULL
  ORDER BY a.attempt_no DESC
  LIMIT 1) copy ON i.payload IS NULL AND p.payload IS NULL
LEFT JOIN LATERAL (
  SELECT e.reason, e.updated_at
  FROM {cell}.payment_dead_letters e
  WHERE e.outbox_id = k.outbox_id AND e.status NOT IN ('manual_replay', 'resolved')
  LIMIT 1) d ON true
LEFT JOIN LATERAL (
  SELECT max(l.acted_at) AS at
  FROM {cell}.payment_operator_log l
  WHERE l.outbox_id = k.outbox_id AND l.act <> 'REVEAL_PAYLOAD') acted ON true
-- A pending row that was put back over a later row of the archive does not count: see put_back_after.
CROSS JOIN LATERAL (
  SELECT CASE
    WHEN d.reason = 'CONFLICT' THEN 'CONFLICT'
    WHEN last.state IN ('DISPATCHING', 'INQUIRING') THEN 'CLAIMED'
    WHEN last.state NOT IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED') THEN 'ENDED'
    WHEN p.here AND (p.next_attempt_at = 'infinity' OR p.attempt_count < newest.attempt_no) THEN 'QUARANTINED'
    WHEN p.here THEN 'WAITS'
    WHEN newest.attempt_no IS NOT NULL THEN 'LOST'
  END AS what) w
CROSS JOIN LATERAL (
  SELECT w.what, CASE w.what
    WHEN 'CLAIMED' THEN 'DELIVERING'
    WHEN 'WAITS' THEN CASE WHEN p.outcome_unknown THEN 'DELIVERING' ELSE 'PENDING' END
    WHEN 'ENDED' THEN CASE WHEN last.state = 'DISPATCHED' THEN 'DELIVERED' ELSE 'DEAD' END
    ELSE CASE WHEN w.what IS NOT NULL THEN 'DEAD' END
  END AS status) v;
COMMENT ON VIEW {cell}.outbox_contract IS
  'One row for each instruction, in the columns and states of the Open Outbox contract, for readers of other '
  'systems: PENDING, DELIVERING, DELIVERED or DEAD; null if only the registry row is left. It is for reading, and '
  'shows payloads. The view runs with its owner''s rights.';
-- end of outbox_contract

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 21, serves 13'
$$;
-- end of schema_version
