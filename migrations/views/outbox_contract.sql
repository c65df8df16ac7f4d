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
  WHERE a.outbox_id = k.outbox_id AND a.state NOT IN ('LATE_OUTCOME', {claim_states})
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
  WHERE e.outbox_id = k.outbox_id AND e.status NOT IN ({closed_letters})
  LIMIT 1) d ON true
LEFT JOIN LATERAL (
  SELECT max(l.acted_at) AS at
  FROM {cell}.payment_operator_log l
  WHERE l.outbox_id = k.outbox_id AND l.act <> 'REVEAL_PAYLOAD') acted ON true
-- A pending row that was put back over a later row of the archive does not count: see put_back_after.
CROSS JOIN LATERAL (
  SELECT CASE
    WHEN d.reason = 'CONFLICT' THEN 'CONFLICT'
    WHEN last.state IN ({claim_states}) THEN 'CLAIMED'
    WHEN last.state NOT IN ({waiting_states}) THEN 'ENDED'
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
