-- outbox_unsettled_send(outbox_id uuid, settled_attempt_no integer) -> boolean
--   Whether some send of the instruction, other than the one that was just answered, has no
--   trustworthy answer. Such a send was answered UNKNOWN, ACCEPTED or ZOMBIE_REQUEUE, and no later
--   refusal is of that very send; or a worker whose claim a restore forgot reported it, of its own
--   send or of an earlier one; or, after the send that was just answered, the rail reported the
--   payment as in progress, and the payment has not ended as FAILED since.
-- reads:   payment_outbox_attempts.   locks: nothing.   called by: record_late_outcome.
CREATE OR REPLACE FUNCTION {cell}.outbox_unsettled_send(outbox_id uuid, settled_attempt_no integer) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts answer
      WHERE answer.outbox_id = $1
        AND answer.state IN ({unsettled_states})
        AND answer.answers_attempt_no IS DISTINCT FROM $2
        AND EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts send
          WHERE send.outbox_id = $1 AND send.attempt_no = answer.answers_attempt_no AND send.state = 'DISPATCHING')
        AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts late
          WHERE late.outbox_id = $1 AND late.state = 'LATE_OUTCOME'
            AND late.answers_attempt_no = answer.answers_attempt_no
            AND late.result IN ({send_refusing_results})))
      OR EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts forgotten
        WHERE forgotten.outbox_id = $1 AND forgotten.state = 'LATE_OUTCOME' AND forgotten.answers_attempt_no IS NULL
          AND (forgotten.result IN ({doubtful_results}) OR forgotten.claimed_at IS NOT NULL
            AND forgotten.outcome_unknown))
      OR EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts asked
        WHERE asked.outbox_id = $1 AND asked.result = 'IN_PROGRESS' AND asked.attempt_no > coalesce($2, 0)
          AND NOT EXISTS (
            SELECT FROM {cell}.payment_outbox_attempts since
            WHERE since.outbox_id = $1 AND since.state = 'FAILED' AND since.attempt_no > asked.attempt_no)));
END
$$;
