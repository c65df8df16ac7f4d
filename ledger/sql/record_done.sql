-- Records the outcomes of claims that end their instructions, so that nothing
-- follows: record.sql without what follows, which is most of its cost, and without
-- ON CONFLICT, which looks through every unique index before it writes. Returns the
-- attempts that went in; the others answer a claim that is forgotten.
-- errors: 23505 if the number of one is taken, or its instruction's execution is
-- recorded already. Nothing has happened then: record.sql tells which ones are late.
--
-- $1 attempt_id[], $2 outbox_id[], $3 claim_no[], $4 state[], $5 result[], $6 rail_reference[],
-- $7 rail_code[], $8 code_table[], $9 error_code[], $10 error_message[], $11 latency_ms[],
-- $12 profile_version[], $13 render_version[], $14 outcome_unknown[], $15 provisional[],
-- $16 worker_id, $17 finished claim_id[], $18 claimed_at[]
--
-- The claims in flight are removed here if every answer went in; else the caller
-- closes them one by one.
WITH o AS MATERIALIZED (
  SELECT *
  FROM unnest($1::uuid[], $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::text[],
    $7::text[], $8::text[], $9::text[], $10::text[], $11::integer[],
    $12::integer[], $13::text[], $14::boolean[], $15::boolean[], $18::timestamptz[])
    AS t(attempt_id, outbox_id, claim_no, state, result, rail_reference,
      rail_code, code_table, error_code, error_message, latency_ms,
      profile_version, render_version, outcome_unknown, provisional, claimed_at)
),
answered AS (
  INSERT INTO {cell}.payment_outbox_attempts AS t
    (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
     attempt_no, state, answers_attempt_no, claimed_at, completed_at, result, rail_reference, rail_code, code_table,
     error_code, error_message, latency_ms, worker_id, profile_version, render_version, outcome_unknown, provisional)
  SELECT o.attempt_id, a.outbox_id, a.instruction_id, a.participant_id, a.sequence_id, a.idempotency_key, a.rail_type,
    o.claim_no + 1, o.state::{cell}.outbox_attempt_state, o.claim_no, o.claimed_at, (SELECT clock_timestamp()),
    o.result, o.rail_reference, o.rail_code, o.code_table,
    o.error_code, o.error_message, o.latency_ms, $16, o.profile_version, o.render_version, o.outcome_unknown, o.provisional
  FROM (SELECT * FROM o ORDER BY o.outbox_id) o
  CROSS JOIN LATERAL (
    SELECT c.outbox_id, c.instruction_id, c.participant_id, c.sequence_id, c.idempotency_key, c.rail_type
    FROM {cell}.payment_outbox_attempts c
    WHERE c.outbox_id = o.outbox_id AND c.attempt_no = o.claim_no AND c.claimed_at = o.claimed_at
      AND c.state IN ({claim_states})
    LIMIT 1) a
  RETURNING t.attempt_id, t.outbox_id
),
told AS (
  SELECT pg_notify('{cell}.payment_outcomes', i.outbox_id::text)
  FROM answered i
  -- Only while a caller waits: see tell_outcome.
  WHERE NOT (SELECT pg_try_advisory_xact_lock_shared(hashtextextended('{cell}.payment_outcomes', 0)))
),
closed AS (
  DELETE FROM {cell}.payment_outbox_claims f
  WHERE f.claim_id = ANY ($17::uuid[])
    AND (SELECT count(*) FROM answered) = cardinality($1::uuid[])
)
SELECT i.attempt_id
FROM answered i
WHERE (SELECT count(*) FROM told) >= 0
