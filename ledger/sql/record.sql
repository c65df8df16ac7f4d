-- Records the outcomes of claims: appends each at its claim's number + 1, and
-- does what follows only for those that went in. One that finds its number
-- taken comes back as LATE and goes by the slow path, record_late_outcome.
--
-- $1 claim_id[], $2 attempt_id[], $3 outbox_id[], $4 claim_no[], $5 state[], $6 result[], $7 rail_reference[],
-- $8 rail_code[], $9 code_table[], $10 error_code[], $11 error_message[], $12 latency_ms[],
-- $13 profile_version[], $14 render_version[], $15 park_attempt_id[], $16 dead_reason[], $17 next_action[],
-- $18 delay_ms[], $19 outcome_unknown[], $20 provisional[], $21 counts_send[], $22 send_count[],
-- $23 inquiry_count[], $24 worker_id, $25 finished claim_id[], $26 claimed_at[]
--
-- One worker may answer two claims of one instruction at once, an old one that
-- was taken from it and the one that followed: what follows goes by the row that
-- went in, attempt_id, and never by the instruction.
--
-- A failover that forgets a claim gives its number away again: the claim is the
-- row with this number and this time, and an answer to one that is gone is late.
--
-- ON CONFLICT has no target, so that the one-DISPATCHED index can't abort the
-- turn either. Every insert is in outbox_id order: unordered ones deadlock on
-- the fence with the reaper's.
WITH o AS MATERIALIZED (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::integer[], $5::text[], $6::text[], $7::text[],
    $8::text[], $9::text[], $10::text[], $11::text[], $12::integer[],
    $13::integer[], $14::text[], $15::uuid[], $16::text[], $17::text[],
    $18::bigint[], $19::boolean[], $20::boolean[], $21::boolean[], $22::integer[], $23::integer[], $26::timestamptz[])
    AS t(claim_id, attempt_id, outbox_id, claim_no, state, result, rail_reference,
      rail_code, code_table, error_code, error_message, latency_ms,
      profile_version, render_version, park_attempt_id, dead_reason, next_action,
      delay_ms, outcome_unknown, provisional, counts_send, send_count, inquiry_count, claimed_at)
),
c AS MATERIALIZED (
  SELECT o.*, a.instruction_id, a.participant_id, a.sequence_id, a.idempotency_key, a.rail_type,
    a.payload, a.headers, a.priority, a.expires_at, a.enqueued_at, a.first_sent_at, a.last_sent_at,
    a.render_version AS claimed_render_version
  FROM o
  CROSS JOIN LATERAL (
    SELECT t.instruction_id, t.participant_id, t.sequence_id, t.idempotency_key, t.rail_type,
      t.payload, t.headers, t.priority, t.expires_at, t.enqueued_at, t.first_sent_at, t.last_sent_at, t.render_version
    FROM {cell}.payment_outbox_attempts t
    WHERE t.outbox_id = o.outbox_id AND t.attempt_no = o.claim_no AND t.claimed_at = o.claimed_at
      AND t.state IN ({claim_states})
    LIMIT 1) a
),
answered AS (
  INSERT INTO {cell}.payment_outbox_attempts AS t
    (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
     attempt_no, state, answers_attempt_no, claimed_at, completed_at, result, rail_reference, rail_code, code_table,
     error_code, error_message, latency_ms, worker_id, profile_version, render_version, outcome_unknown, provisional)
  SELECT c.attempt_id, c.outbox_id, c.instruction_id, c.participant_id, c.sequence_id, c.idempotency_key, c.rail_type,
    c.claim_no + 1, c.state::{cell}.outbox_attempt_state, c.claim_no, c.claimed_at, (SELECT clock_timestamp()),
    c.result, c.rail_reference, c.rail_code, c.code_table,
    c.error_code, c.error_message, c.latency_ms, $24, c.profile_version, c.render_version, c.outcome_unknown, c.provisional
  FROM c
  ORDER BY c.outbox_id
  ON CONFLICT DO NOTHING
  RETURNING t.attempt_id, t.outbox_id
),
parked AS (
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
     attempt_no, state, completed_at, error_code, worker_id, profile_version, outcome_unknown, provisional)
  SELECT c.park_attempt_id, c.outbox_id, c.instruction_id, c.participant_id, c.sequence_id, c.idempotency_key, c.rail_type,
    c.claim_no + 2, 'PARKED', (SELECT clock_timestamp()), c.error_code, $24, c.profile_version, c.outcome_unknown, c.provisional
  FROM c
  JOIN answered i ON i.attempt_id = c.attempt_id
  WHERE c.park_attempt_id IS NOT NULL
  ORDER BY c.outbox_id
),
requeued AS (
  INSERT INTO {cell}.payment_outbox_pending AS p
    (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_count,
     next_attempt_at, created_at, priority, expires_at, headers, next_action, outcome_unknown, provisional,
     first_sent_at, last_sent_at, send_count, inquiry_count, render_version)
  SELECT c.outbox_id, c.instruction_id, c.participant_id, c.sequence_id, c.idempotency_key, c.rail_type, c.payload, c.claim_no + 1,
    clock_timestamp() + make_interval(secs => c.delay_ms / 1000.0), c.enqueued_at, c.priority, c.expires_at, c.headers,
    c.next_action, c.outcome_unknown, c.provisional,
    CASE WHEN c.counts_send THEN coalesce(c.first_sent_at, c.claimed_at) ELSE c.first_sent_at END,
    CASE WHEN c.counts_send THEN c.claimed_at ELSE c.last_sent_at END,
    c.send_count, c.inquiry_count,
    CASE WHEN c.counts_send OR c.first_sent_at IS NOT NULL THEN c.claimed_render_version END
  FROM c
  JOIN answered i ON i.attempt_id = c.attempt_id
  WHERE c.next_action IS NOT NULL
  ORDER BY c.outbox_id
  -- What stands there was put back while the claim was out: it counts no row, so
  -- that no claim takes it (put_back_after), and it waits for a person.
  ON CONFLICT (outbox_id) DO UPDATE SET
    attempt_count = 0,
    outcome_unknown = p.outcome_unknown OR excluded.outcome_unknown
),
letters AS (
  SELECT {cell}.open_dead_letters(array_agg(c.outbox_id), array_agg(c.dead_reason), array_agg(coalesce(c.error_code, c.rail_code)))
  FROM c
  JOIN answered i ON i.attempt_id = c.attempt_id
  WHERE c.dead_reason IS NOT NULL
  HAVING count(*) > 0
),
told AS (
  SELECT pg_notify('{cell}.payment_outcomes', c.outbox_id::text)
  FROM c
  JOIN answered i ON i.attempt_id = c.attempt_id
  -- What has a letter is told with it. Only while a caller waits: see tell_outcome.
  WHERE c.state = 'DISPATCHED'
    AND NOT (SELECT pg_try_advisory_xact_lock_shared(hashtextextended('{cell}.payment_outcomes', 0)))
),
closed AS (
  DELETE FROM {cell}.payment_outbox_claims f
  WHERE f.claim_id = ANY ($25::uuid[])
    AND (SELECT count(*) FROM answered) = cardinality($2::uuid[])
)
SELECT i.attempt_id
FROM answered i
LEFT JOIN letters l ON true
WHERE (SELECT count(*) FROM told) >= 0
