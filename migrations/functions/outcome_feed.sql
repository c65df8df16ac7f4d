-- outcome_feed(after_xact xid8, after_outbox_id uuid, after_attempt_no integer, rows_max integer, ahead boolean)
--   -> setof (at_xact, at_outbox_id, at_attempt_no, at_attempt_id, settled, in_place, event_type,
--   and what the row says)
--   Rows of the archive that answer, repair or act, in an order that no late commit can break: the
--   order of the transactions that wrote them, up to the oldest transaction that is in progress in
--   the server, so that no row with a lower transaction number can follow. Returns the rows of at
--   most rows_max places after the given one. A place is one row of the archive, and each place
--   returns at least one row.
--
--   The rows of one instruction are in the order of their numbers. A transaction that began to
--   write before another one and continued after it has the lower transaction number and may have
--   the higher row number. Each row is therefore returned at the first place, from that row on, of
--   its instruction's rows. in_place: the row is that of the place itself, or the place has no row
--   (outbox_id is null) because its row was returned before.
--
--   With ahead, committed rows after these are returned too (settled is false); other rows may
--   still come before them.
--
--   Rows that were written before the column xact existed are not in the feed. event_type is null
--   if a row is not an event: see payment.EventType. outcome_unknown is that of event_outcome_unknown.
-- errors:  55P03 if the archive stays locked for 5 s.
-- reads:   payment_outbox_attempts, payment_outbox_keys, payment_outbox_contradictions, and what
--          event_outcome_unknown reads.
-- locks:   nothing.   called by: api_events, event_deliveries, readers.
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
      WHEN e.state IN ({unknown_event_states}) AND (
        SELECT b.outcome_unknown
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no AND b.state NOT IN ({claim_states})
        ORDER BY b.attempt_no DESC LIMIT 1)
        THEN NULL
      -- Late evidence, and a refusal for now, may be the first to make the outcome unknown.
      WHEN e.state IN ({eventless_states}) THEN CASE WHEN e.outcome_unknown AND (
        SELECT b.outcome_unknown
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no AND b.state NOT IN ({claim_states})
        ORDER BY b.attempt_no DESC LIMIT 1) IS NOT TRUE AND (
        SELECT b.state IN ({ended_states})
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no
          AND b.state NOT IN ({claim_states}, 'LATE_OUTCOME')
        ORDER BY b.attempt_no DESC LIMIT 1) IS NOT TRUE THEN 'payment.outcome_unknown' END
      WHEN e.state = 'FAILED' AND e.error_code = 'EXPIRED' THEN 'payment.expired'
      ELSE (SELECT t.type FROM (VALUES {event_types}) AS t(state, type) WHERE t.state = e.state::text)
    END,
    e.attempt_id, e.outbox_id, coalesce(k.instruction_id, e.instruction_id),
    coalesce(k.participant_id, e.participant_id), coalesce(k.sequence_id, e.sequence_id), e.attempt_no, e.state::text,
    e.answers_attempt_no, e.created_at, e.claimed_at, e.completed_at, e.result, e.rail_type, e.rail_reference,
    e.rail_code, e.error_code, e.latency_ms, e.worker_id,
    {cell}.event_outcome_unknown(e.outbox_id, e.state, e.outcome_unknown)
  FROM (
    SELECT s.xact, s.outbox_id, s.attempt_no, s.attempt_id
    FROM {cell}.payment_outbox_attempts s
    WHERE s.state NOT IN ({claim_states})
      AND s.xact >= $1 AND s.xact < CASE WHEN $5 THEN pg_snapshot_xmax(pg_current_snapshot())
        ELSE pg_snapshot_xmin(pg_current_snapshot()) END
      AND (s.xact > $1 OR (s.outbox_id, s.attempt_no) > ($2, $3))
    ORDER BY s.xact, s.outbox_id, s.attempt_no
    LIMIT $4) p
  LEFT JOIN LATERAL (
    SELECT r.*
    FROM {cell}.payment_outbox_attempts r
    WHERE r.outbox_id = p.outbox_id AND r.attempt_no <= p.attempt_no AND r.state NOT IN ({claim_states})
      AND (r.xact, r.attempt_no) >= (p.xact, p.attempt_no)
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts f
        WHERE f.outbox_id = p.outbox_id AND f.attempt_no >= r.attempt_no AND f.state NOT IN ({claim_states})
          AND (f.xact, f.attempt_no) < (p.xact, p.attempt_no))) e ON true
  LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = e.outbox_id
  ORDER BY p.xact, p.outbox_id, p.attempt_no, e.attempt_no;
END
$$;
