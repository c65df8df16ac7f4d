-- Records the outcomes of claims: appends each at the number of its claim + 1, and applies what
-- follows for those that were appended. An outcome whose number is taken is not appended; it is
-- LATE, and takes the slow path, record_late_outcome.
--
-- $1 finished claim_id[]; from $2 on the columns of outcomes that ledger/internal/store/columns.go defines, as arrays
--
-- One worker may answer two claims of one instruction at once, an old one that was recovered from
-- it and the one that followed. What follows therefore depends on the row that was appended,
-- attempt_id, and never on the instruction.
--
-- These outcomes are left to the slow path too: an inquiry that reports as executed a payment that
-- the rail has refused in some answer, because the two have to be compared; an inquiry that reports
-- as refused a payment that the rail has refused in a report; and an outcome that would end the
-- payment unexecuted, or send it as if for the first time, if a send of it may be forgotten,
-- because the worker judged it by what was known when it called.
--
-- A failover that forgets a claim gives its number away again. The claim is therefore the row with
-- this number and this time; an answer to a claim that no longer exists is late.
--
-- ON CONFLICT has no target, so that the unique index of DISPATCHED rows can't abort the turn
-- either. Every insert is in outbox_id order: unordered inserts deadlock on the fencing index with
-- those of the reaper.
WITH o AS MATERIALIZED (
  SELECT * FROM {outcomes}
),
c AS MATERIALIZED (
  SELECT o.*, a.participant_id, a.rail_type, a.payload, a.headers, a.priority, a.expires_at, a.enqueued_at,
    a.first_sent_at, a.last_sent_at, a.render_version AS claimed_render_version, a.state AS claim_state
  FROM o
  CROSS JOIN LATERAL (
    SELECT t.participant_id, t.rail_type, t.payload, t.headers, t.priority, t.expires_at, t.enqueued_at,
      t.first_sent_at, t.last_sent_at, t.render_version, t.state
    FROM {cell}.payment_outbox_attempts t
    WHERE t.outbox_id = o.outbox_id AND t.attempt_no = o.claim_no AND t.claimed_at = o.claimed_at
      AND t.state IN ({claim_states})
    LIMIT 1) a
),
answered AS (
  INSERT INTO {cell}.payment_outbox_attempts AS t
    (rail_type, attempt_no, answers_attempt_no, completed_at, {answer})
  SELECT c.rail_type, c.claim_no + 1, c.claim_no, (SELECT clock_timestamp()), {answer c}
  FROM c
  -- Not EXISTS, which could be planned as a hash of all refusals.
  WHERE NOT (c.claim_state = 'INQUIRING' AND CASE c.state
    WHEN 'DISPATCHED' THEN (
      SELECT true FROM {cell}.payment_outbox_attempts refusal
      WHERE refusal.outbox_id = c.outbox_id AND refusal.result IN ({refusing_results})
      LIMIT 1) IS NOT NULL
    WHEN 'FAILED' THEN (
      SELECT true FROM {cell}.payment_outbox_attempts said
      WHERE said.outbox_id = c.outbox_id
        -- Compared as text, so that no index of all late outcomes is read.
        AND said.state::text = 'LATE_OUTCOME' AND said.result = 'REFUSED' AND said.answers_attempt_no IS NULL
      LIMIT 1) IS NOT NULL
    ELSE false END)
    AND CASE WHEN c.state = 'FAILED' OR c.next_action = 'SEND' AND NOT c.outcome_unknown
      THEN (SELECT {cell}.server_is_settled()) AND (c.enqueued_at < (SELECT {cell}.forgotten_calls_until())) IS NOT TRUE
        ELSE true END
  ORDER BY c.outbox_id
  ON CONFLICT DO NOTHING
  RETURNING t.attempt_id, t.outbox_id
),
parked AS (
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, error_code, worker_id, profile_version,
      outcome_unknown, provisional)
  SELECT c.park_attempt_id, c.outbox_id, c.rail_type, c.claim_no + 2, 'PARKED', (SELECT clock_timestamp()),
    c.error_code, c.worker_id, c.profile_version, c.outcome_unknown, c.provisional
  FROM c
  JOIN answered i ON i.attempt_id = c.attempt_id
  WHERE c.park_attempt_id IS NOT NULL
  ORDER BY c.outbox_id
),
requeued AS (
  INSERT INTO {cell}.payment_outbox_pending AS p
    (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
      headers, next_action, outcome_unknown, provisional,
     first_sent_at, last_sent_at, send_count, inquiry_count, render_version)
  SELECT c.outbox_id, c.participant_id, c.rail_type, c.payload, c.claim_no + 1,
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
  -- A row that is there already was put back while the instruction was claimed. It gets
  -- attempt_count 0, so that no claim takes it (put_back_after) and an operator has to handle it.
  ON CONFLICT (outbox_id) DO UPDATE SET
    attempt_count = 0,
    outcome_unknown = p.outcome_unknown OR excluded.outcome_unknown
),
letters AS (
  SELECT {cell}.open_dead_letters(array_agg(c.outbox_id), array_agg(c.dead_reason),
    array_agg(coalesce(c.error_code, c.rail_code)))
  FROM c
  JOIN answered i ON i.attempt_id = c.attempt_id
  WHERE c.dead_reason IS NOT NULL
  HAVING count(*) > 0
),
told AS (
  -- An instruction with a dead letter is notified by open_dead_letters. See record_done.sql.
  SELECT pg_notify('{cell}.payment_outcomes', string_agg(i.outbox_id::text, ' '))
  FROM (
    SELECT c.outbox_id, row_number() OVER () - 1 AS n
    FROM c
    JOIN answered i ON i.attempt_id = c.attempt_id
    WHERE c.state = 'DISPATCHED') i
  WHERE NOT (SELECT pg_try_advisory_xact_lock_shared(hashtextextended('{cell}.payment_outcomes', 0)))
  GROUP BY i.n / 200
),
ended_letters AS (
  SELECT {cell}.close_answered_letters(array_agg(c.outbox_id))
  FROM c
  JOIN answered i ON i.attempt_id = c.attempt_id
  WHERE c.state = 'DISPATCHED' AND c.claim_state = 'INQUIRING'
  HAVING count(*) > 0
),
closed AS (
  DELETE FROM {cell}.payment_outbox_claims f
  WHERE f.claim_id = ANY ($1::uuid[])
    AND (SELECT count(*) FROM answered) = (SELECT count(*) FROM o)
)
SELECT i.attempt_id
FROM answered i
LEFT JOIN letters l ON true
LEFT JOIN ended_letters e ON true
WHERE (SELECT count(*) FROM told) >= 0
