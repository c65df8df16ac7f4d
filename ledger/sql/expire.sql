-- Ends instructions that have expired and have no unknown outcome, also those of a paused rail:
-- deletes them from pending, appends FAILED with EXPIRED and the whole pending row, and opens a
-- dead letter. An instruction that may repeat a call which a restore forgot is PARKED instead,
-- because that call may have been paid, and so is one whose key another cell has, too, or may have. A quarantined row already has a dead letter. Nothing is
-- ended while the database may have forgotten a send (server_is_settled).
-- Returns the instructions that were ended, and whether each was parked.
-- $1 worker_id, $2 limit, $3 outbox_id[] to end exclusively; null: any
WITH due AS MATERIALIZED (
  SELECT e.outbox_id
  FROM {cell}.payment_rails r
  CROSS JOIN LATERAL (
    SELECT p.outbox_id
    FROM {cell}.payment_outbox_pending p
    WHERE p.rail_type = r.rail_type AND p.expires_at <= statement_timestamp() AND NOT p.outcome_unknown
      AND (SELECT {cell}.server_is_settled())
      AND p.next_attempt_at < 'infinity' AND ($3::uuid[] IS NULL OR p.outbox_id = ANY ($3::uuid[]))
    ORDER BY p.expires_at
    LIMIT $2
    FOR UPDATE SKIP LOCKED) e
  LIMIT $2
),
gone AS (
  DELETE FROM {cell}.payment_outbox_pending p
  WHERE p.outbox_id = ANY (ARRAY(SELECT d.outbox_id FROM due d))
  RETURNING p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type, p.payload,
    p.attempt_count, p.next_attempt_at, p.created_at, p.priority, p.expires_at, p.headers, p.next_action,
    p.outcome_unknown, p.provisional, p.first_sent_at, p.last_sent_at, p.send_count, p.inquiry_count, p.render_version
),
ended AS (
  INSERT INTO {cell}.payment_outbox_attempts AS a
    (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
     attempt_no, state, completed_at, error_code, worker_id, render_version, outcome_unknown, provisional,
     payload, headers, priority, expires_at, enqueued_at, next_attempt_at, next_action,
     first_sent_at, last_sent_at, send_count, inquiry_count)
  SELECT {cell}.uuidv7(), g.outbox_id, g.instruction_id, g.participant_id, g.sequence_id, g.idempotency_key,
    g.rail_type,
    CASE WHEN {cell}.put_back_after(g.outbox_id) IS NOT NULL THEN {cell}.refuse_put_back(g.outbox_id)
      ELSE g.attempt_count + 1
    END,
    CASE WHEN paid.perhaps THEN 'PARKED' ELSE 'FAILED' END::{cell}.outbox_attempt_state, clock_timestamp(),
      'EXPIRED', $1,
    g.render_version, paid.perhaps, g.provisional,
    g.payload, g.headers, g.priority, g.expires_at, g.created_at, g.next_attempt_at, g.next_action,
    g.first_sent_at, g.last_sent_at, g.send_count, g.inquiry_count
  FROM gone g
  CROSS JOIN LATERAL (
    SELECT {cell}.repeats_forgotten_call(g.created_at) IS NOT NULL
      OR EXISTS (SELECT FROM {cell}.other_cell_key(g.outbox_id)) AS perhaps) paid
  ORDER BY g.outbox_id
  RETURNING a.outbox_id, a.outcome_unknown, a.rail_type
),
letters AS (
  SELECT {cell}.open_dead_letters(array_agg(e.outbox_id), array_agg(CASE WHEN e.outcome_unknown THEN 'OUTCOME_UNKNOWN'
    ELSE 'EXPIRED' END),
    array_agg('EXPIRED'::text))
  FROM ended e
  HAVING count(*) > 0
),
lines AS (
  SELECT count({cell}.note_order_change(e.outbox_id, e.rail_type, false)) AS n
  FROM ended e
)
SELECT e.outbox_id, e.outcome_unknown FROM ended e LEFT JOIN letters l ON true WHERE (SELECT n.n FROM lines n) >= 0
