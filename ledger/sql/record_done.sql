-- Records the outcomes of claims that end their instructions, so that nothing follows. It is
-- record.sql without what follows, which is most of its cost, and without ON CONFLICT, which reads
-- every unique index before it writes. Returns the attempts that were appended; the others answer a
-- claim that a restore has forgotten.
-- errors: 23505 if the number of one is taken, or the execution of its instruction is already recorded. Nothing
-- is stored then, and record.sql finds which ones are late.
--
-- $1 finished claim_id[]; from $2 on the columns of outcomes that ledger/internal/store/columns.go defines, as arrays
--
-- The claims in flight are deleted here if every answer was appended; otherwise the caller closes
-- them one by one.
WITH o AS MATERIALIZED (
  SELECT * FROM {outcomes}
),
answered AS (
  INSERT INTO {cell}.payment_outbox_attempts AS t
    (rail_type, attempt_no, answers_attempt_no, completed_at, {answer})
  SELECT a.rail_type, o.claim_no + 1, o.claim_no, (SELECT clock_timestamp()), {answer o}
  FROM (SELECT * FROM o ORDER BY o.outbox_id) o
  CROSS JOIN LATERAL (
    SELECT c.rail_type
    FROM {cell}.payment_outbox_attempts c
    WHERE c.outbox_id = o.outbox_id AND c.attempt_no = o.claim_no AND c.claimed_at = o.claimed_at
      AND c.state IN ({claim_states})
    LIMIT 1) a
  RETURNING t.attempt_id, t.outbox_id
),
told AS (
  SELECT pg_notify('{cell}.payment_outcomes', string_agg(i.outbox_id::text, ' '))
  FROM (SELECT a.outbox_id, row_number() OVER () - 1 AS n FROM answered a) i
  -- Only while a caller waits, and as many ids in one notification as fit into its 8,000 bytes: see
  -- notify_outcome.
  WHERE NOT (SELECT pg_try_advisory_xact_lock_shared(hashtextextended('{cell}.payment_outcomes', 0)))
  GROUP BY i.n / 200
),
closed AS (
  DELETE FROM {cell}.payment_outbox_claims f
  WHERE f.claim_id = ANY ($1::uuid[])
    AND (SELECT count(*) FROM answered) = (SELECT count(*) FROM o)
)
SELECT i.attempt_id
FROM answered i
WHERE (SELECT count(*) FROM told) >= 0
