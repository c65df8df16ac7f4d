-- Views for operators: one row for each instruction, and counts of pending instructions. The counts
-- have an upper bound, so that a large backlog does not make a view slow.

CREATE OR REPLACE VIEW {cell}.supervisor_outbox_status AS
SELECT
  k.outbox_id,
  k.instruction_id,
  k.participant_id,
  k.sequence_id,
  coalesce(p.rail_type, a.rail_type)                        AS rail_type,
  CASE
    WHEN d.reason = 'CONFLICT' AND d.status NOT IN ({closed_letters}) THEN 'CONFLICT'
    WHEN p.provisional THEN 'ACCEPTED'
    WHEN p.outcome_unknown THEN 'UNKNOWN'
    WHEN p.outbox_id IS NOT NULL THEN 'PENDING'
    ELSE s.state::text
  END                                                       AS state,
  k.created_at                                              AS enqueued_at,
  clock_timestamp() - k.created_at                          AS age,
  coalesce(a.attempt_no, 0)                                 AS attempts,
  a.state::text                                             AS last_attempt_state,
  a.created_at                                              AS last_attempt_at,
  a.error_code                                              AS last_error_code,
  a.error_message                                           AS last_error_message,
  coalesce(p.outcome_unknown, a.outcome_unknown, false)     AS outcome_unknown,
  p.next_attempt_at,
  p.next_action,
  p.priority,
  p.expires_at,
  d.reason                                                  AS dead_letter_reason,
  d.status                                                  AS dead_letter_status
FROM {cell}.payment_outbox_keys k
LEFT JOIN {cell}.payment_outbox_pending p ON p.outbox_id = k.outbox_id
LEFT JOIN LATERAL (
  SELECT t.attempt_no, t.state, t.rail_type, t.created_at, t.error_code, t.error_message, t.outcome_unknown
  FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = k.outbox_id
  ORDER BY t.attempt_no DESC
  LIMIT 1) a ON true
LEFT JOIN LATERAL (
  SELECT t.state
  FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = k.outbox_id AND t.state <> 'LATE_OUTCOME'
  ORDER BY t.attempt_no DESC
  LIMIT 1) s ON true
LEFT JOIN {cell}.payment_dead_letters d ON d.outbox_id = k.outbox_id;
COMMENT ON VIEW {cell}.supervisor_outbox_status IS
  'One row for each instruction: its state, age, attempts and last error. The view runs with its owner''s rights, '
  'so that a reader needs no privilege on the tables.';

CREATE OR REPLACE VIEW {cell}.v_outbox_backlog AS
SELECT w.rail_type, w.state, count(*) AS count, max(w.waiting) >= 100000 AS at_least,
  min(w.enqueued_at) AS oldest_enqueued_at, clock_timestamp() - min(w.enqueued_at) AS oldest_age,
    min(w.due_at) AS next_due_at
FROM (
  SELECT r.rail_type, p.created_at AS enqueued_at, nullif(p.next_attempt_at, 'infinity') AS due_at,
    count(*) OVER (PARTITION BY r.rail_type) AS waiting,
    CASE
      WHEN p.next_attempt_at = 'infinity' THEN 'UNCLAIMABLE'
      WHEN p.provisional THEN 'ACCEPTED'
      WHEN p.outcome_unknown THEN 'UNKNOWN'
      WHEN p.attempt_count > 0 THEN 'RETRYABLE'
      ELSE 'PENDING'
    END AS state
  FROM {cell}.payment_rails r
  CROSS JOIN LATERAL (
    SELECT q.created_at, q.next_attempt_at, q.provisional, q.outcome_unknown, q.attempt_count
    FROM {cell}.payment_outbox_pending q
    WHERE q.rail_type = r.rail_type
    LIMIT 100000) p
  UNION ALL
  SELECT a.rail_type, a.enqueued_at, NULL, 1, a.state::text
  FROM (
    SELECT m.outbox_id, m.attempt_no
    FROM {cell}.payment_outbox_claims c
    CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
    ORDER BY c.claimed_at
    LIMIT 20000) f
  CROSS JOIN LATERAL (
    SELECT t.rail_type, t.enqueued_at, t.state
    FROM {cell}.payment_outbox_attempts t
    WHERE t.outbox_id = f.outbox_id AND t.attempt_no = f.attempt_no
    LIMIT 1) a
  WHERE {is_open f}) w
GROUP BY w.rail_type, w.state;
COMMENT ON VIEW {cell}.v_outbox_backlog IS
  'Instructions that are pending or in flight, by rail and state. PENDING: never sent. RETRYABLE: sent, and '
  'provably not executed. UNKNOWN and ACCEPTED: the rail''s final answer is outstanding. UNCLAIMABLE: quarantined. '
  'DISPATCHING and INQUIRING: claimed and not answered. The view reads at most 100,000 pending rows of each rail '
  '(at_least is then true) and 20,000 claimed ones.';

CREATE OR REPLACE VIEW {cell}.v_dead_letter_summary AS
SELECT d.reason, d.rail_type, d.status, count(*) AS count,
  min(d.opened_at) AS oldest_opened_at, max(d.opened_at) AS latest_opened_at,
  clock_timestamp() - min(d.opened_at) AS oldest_age
FROM (
  SELECT w.reason, w.rail_type, w.status, w.opened_at
  FROM {cell}.payment_dead_letters w
  WHERE w.status NOT IN ({closed_letters})
  LIMIT 1000000) d
GROUP BY d.reason, d.rail_type, d.status;
COMMENT ON VIEW {cell}.v_dead_letter_summary IS 'Open dead letters by reason, rail and status.';

CREATE OR REPLACE VIEW {cell}.v_queue_health AS
WITH backlog AS MATERIALIZED (
  SELECT b.rail_type, b.state, b.count, b.at_least
  FROM {cell}.v_outbox_backlog b
),
rail AS MATERIALIZED (
  SELECT r.rail_type, r.paused OR e.paused AS paused,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state NOT IN ({claim_states})), 0)::bigint AS pending,
    coalesce((SELECT bool_or(b.at_least) FROM backlog b WHERE b.rail_type = r.rail_type), false) AS at_least,
    CASE WHEN d.due_at <= clock_timestamp() THEN clock_timestamp() - d.due_at END AS oldest_due_age,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state IN ({claim_states})), 0)::bigint AS in_flight,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state IN ({unsettled_states})), 0)::bigint
      + (SELECT count(*)
        FROM (
          SELECT d.outbox_id FROM {cell}.payment_dead_letters d
          WHERE d.rail_type = r.rail_type AND d.reason = 'OUTCOME_UNKNOWN' AND d.status NOT IN ({closed_letters})
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
  SELECT h.name, h.kind, h.host, h.version, h.started_at, h.last_tick_at, h.clock_offset_ms,
    concat_ws(', ', h.status, nullif(h.activity, '')) AS activity,
    clock_timestamp() - h.last_tick_at AS age,
    CASE
      WHEN h.status = 'stopped' THEN 'stopped'
      WHEN h.last_tick_at <= clock_timestamp() - h.stale_after_ms * interval '1 millisecond' THEN 'stale'
      WHEN h.last_tick_at <= clock_timestamp() - h.stale_after_ms * interval '1 millisecond' / 2 THEN 'warning'
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

CREATE OR REPLACE VIEW {cell}.v_lanes AS
SELECT l.rail_type, h.name AS worker_id, h.host, l.profile_version, l.slots, l.calls, l.breaker,
  CASE WHEN l.open_ms > 0 THEN h.last_tick_at + make_interval(secs => l.open_ms / 1000.0) END AS breaker_open_until,
  l.rate, l.suspended,
  CASE WHEN l.stopped_ms > 0 THEN h.last_tick_at + make_interval(secs => l.stopped_ms / 1000.0) END AS stopped_until,
  h.last_tick_at AS said_at
FROM {cell}.outbox_heartbeats h
CROSS JOIN LATERAL jsonb_to_recordset(h.lanes) AS l (
  rail_type text, profile_version integer, slots integer, calls integer, breaker text, open_ms bigint,
    rate double precision,
  suspended text, stopped_ms bigint)
WHERE h.kind = 'relayer' AND h.status IN ('running', 'suspended')
  AND h.last_tick_at > clock_timestamp() - make_interval(secs => h.stale_after_ms / 1000.0);
COMMENT ON VIEW {cell}.v_lanes IS
  'The rails that each running relayer served at its last heartbeat, and their state. A rail without a row is '
  'served by no relayer.';
