-- Migration 35, where events begin. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function outcome_feed
CREATE OR REPLACE FUNCTION {cell}.outcome_feed(after_xact xid8, after_outbox_id uuid, after_attempt_no integer,
  rows_max integer, ahead boolean)
RETURNS TABLE (at_xact xid8, at_outbox_id uuid, at_attempt_no integer, at_attempt_id uuid, settled boolean,
  in_place boolean, event_type text,
  attempt_id uuid, outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, attempt_no integer,
  state text, answers_attempt_no integer, created_at timestamptz, claimed_at timestamptz, completed_at timestamptz,
  result text, rail_type text, rail_reference text, rail_code text, error_code text, latency_ms integer, worker_id text,
  outcome_unknown boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT p.xact, p.outbox_id, p.attempt_no, p.attempt_id, p.xact < pg_snapshot_xmin(pg_current_snapshot()),
    coalesce(e.attempt_no = p.attempt_no, true),
    CASE
      WHEN e.outbox_id IS NULL THEN NULL
      WHEN EXISTS (
        SELECT FROM {cell}.payment_outbox_contradictions c WHERE c.outbox_id = e.outbox_id
          AND c.attempt_no = e.attempt_no)
        THEN 'payment.conflict'
      WHEN e.state IN ('ZOMBIE_REQUEUE', 'UNKNOWN') AND (
        SELECT b.outcome_unknown
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no AND b.state NOT IN ('DISPATCHING', 'INQUIRING')
        ORDER BY b.attempt_no DESC LIMIT 1)
        THEN NULL
      -- Late evidence, and a refusal for now, may be the first to make the outcome unknown.
      WHEN e.state IN ('RETRYABLE', 'LATE_OUTCOME') THEN CASE WHEN e.outcome_unknown AND (
        SELECT b.outcome_unknown
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no AND b.state NOT IN ('DISPATCHING', 'INQUIRING')
        ORDER BY b.attempt_no DESC LIMIT 1) IS NOT TRUE AND (
        SELECT b.state IN ('DISPATCHED', 'FAILED', 'CANCELLED')
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no
          AND b.state NOT IN ('DISPATCHING', 'INQUIRING', 'LATE_OUTCOME')
        ORDER BY b.attempt_no DESC LIMIT 1) IS NOT TRUE THEN 'payment.outcome_unknown' END
      WHEN e.state = 'FAILED' AND e.error_code = 'EXPIRED' THEN 'payment.expired'
      ELSE (SELECT t.type FROM (VALUES ('DISPATCHED', 'payment.dispatched'), ('FAILED', 'payment.failed'), ('ZOMBIE_REQUEUE', 'payment.outcome_unknown'), ('ACCEPTED', 'payment.accepted'), ('UNKNOWN', 'payment.outcome_unknown'), ('PARKED', 'payment.needs_attention'), ('CANCELLED', 'payment.cancelled'), ('REPLAYED', 'payment.replayed')) AS t(state, type) WHERE t.state = e.state::text)
    END,
    e.attempt_id, e.outbox_id, coalesce(k.instruction_id, e.instruction_id),
    coalesce(k.participant_id, e.participant_id), coalesce(k.sequence_id, e.sequence_id), e.attempt_no, e.state::text,
    e.answers_attempt_no, e.created_at, e.claimed_at, e.completed_at, e.result, e.rail_type, e.rail_reference,
    e.rail_code, e.error_code, e.latency_ms, e.worker_id,
    -- A cancelled call may repeat one that a restore lost, and that was executed.
    e.outcome_unknown OR e.state = 'CANCELLED' AND {cell}.payment_certainty(e.outbox_id, true) = 'OUTCOME_UNKNOWN'
  FROM (
    SELECT s.xact, s.outbox_id, s.attempt_no, s.attempt_id
    FROM {cell}.payment_outbox_attempts s
    WHERE s.state NOT IN ('DISPATCHING', 'INQUIRING')
      AND s.xact >= $1 AND s.xact < CASE WHEN $5 THEN pg_snapshot_xmax(pg_current_snapshot())
        ELSE pg_snapshot_xmin(pg_current_snapshot()) END
      AND (s.xact > $1 OR (s.outbox_id, s.attempt_no) > ($2, $3))
    ORDER BY s.xact, s.outbox_id, s.attempt_no
    LIMIT $4) p
  LEFT JOIN LATERAL (
    SELECT r.*
    FROM {cell}.payment_outbox_attempts r
    WHERE r.outbox_id = p.outbox_id AND r.attempt_no <= p.attempt_no AND r.state NOT IN ('DISPATCHING', 'INQUIRING')
      AND (r.xact, r.attempt_no) >= (p.xact, p.attempt_no)
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts f
        WHERE f.outbox_id = p.outbox_id AND f.attempt_no >= r.attempt_no AND f.state NOT IN ('DISPATCHING', 'INQUIRING')
          AND (f.xact, f.attempt_no) < (p.xact, p.attempt_no))) e ON true
  LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = e.outbox_id
  ORDER BY p.xact, p.outbox_id, p.attempt_no, e.attempt_no;
END
$$;
-- end of outcome_feed

-- function outcome_place
CREATE OR REPLACE FUNCTION {cell}.outcome_place(xact xid8, outbox_id uuid, attempt_no integer, attempt_id uuid,
  system_identifier text,
  OUT to_xact xid8, OUT to_outbox_id uuid, OUT to_attempt_no integer, OUT went_back boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  none CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
  same CONSTANT boolean := (SELECT s.system_identifier::text = $5 FROM pg_control_system() s);
  since timestamptz;
BEGIN
  went_back := false;
  to_xact := coalesce($1, '0'::xid8);
  to_outbox_id := coalesce($2, none);
  to_attempt_no := coalesce($3, 0);
  IF ($4 IS NULL OR $4 = none) AND ($5 IS NULL OR same) THEN
    RETURN;
  ELSIF $4 IS NULL OR $4 = none THEN -- the cursor is at the beginning of another server's feed
    went_back := true;
    to_xact := '0'::xid8;
    RETURN;
  ELSIF same AND EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $2 AND a.attempt_no = $3 AND a.attempt_id = $4 AND a.xact = $1) OR same
      AND {cell}.left_the_archive($2)
  THEN
    RETURN;
  END IF;
  went_back := true;
  since := least(clock_timestamp(), {cell}.uuidv7_time(CASE WHEN get_byte(uuid_send($4), 6) >> 4 = 7 THEN $4
    ELSE coalesce($2, none) END));
  to_xact := {cell}.outcome_feed_since(least(since, (
    -- Rows that the old server delivered after this one had taken over.
    SELECT min(s.opened_at) FROM {cell}.payment_outbox_suspensions s
    WHERE s.opened_at > since - interval '1 day')) - interval '1 hour');
  IF same THEN
    to_xact := least(to_xact, $1);
  END IF;
  to_outbox_id := none;
  to_attempt_no := 0;
END
$$;
-- end of outcome_place

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 35, serves 13'
$$;
-- end of schema_version
