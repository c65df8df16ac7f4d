-- refused_and_executed(outbox_id uuid, after_no integer) -> boolean
--   Whether the rail refused and executed under the very same reference, by its own word,
--   and one of the two came after the row after_no: it contradicts itself. Not where it
--   was sent again after what was refused; and not by a word about the payment where an
--   earlier send was refused under that reference, which the word may repeat. Without a
--   reference the two could be of different sends.
--   payment.History has the same rule.
-- reads:   payment_outbox_attempts, and what sends_of reads.   locks: nothing.
-- called by: record_late_outcome, answer_open_claim.
CREATE OR REPLACE FUNCTION {cell}.refused_and_executed(outbox_id uuid, after_no integer) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts executed
    JOIN {cell}.payment_outbox_attempts refusal
      ON refusal.outbox_id = executed.outbox_id AND refusal.rail_reference = executed.rail_reference
    WHERE executed.outbox_id = $1 AND greatest(executed.attempt_no, refusal.attempt_no) > $2
      AND (executed.state = 'DISPATCHED' OR executed.state = 'LATE_OUTCOME' AND executed.result = 'EXECUTED')
      AND refusal.result IN ({refusing_results})
      -- What an operator recorded is not the rail's word.
      AND executed.error_code IS DISTINCT FROM 'RESOLVED' AND refusal.error_code IS DISTINCT FROM 'RESOLVED'
      AND NOT EXISTS (
        SELECT FROM {cell}.sends_of($1) later
        WHERE NOT later.forgotten AND NOT later.denied
          AND (later.attempt_no > coalesce(refusal.answers_attempt_no, refusal.attempt_no)
            OR refusal.result = 'REFUSED' AND EXISTS (
              SELECT FROM {cell}.payment_outbox_attempts send
              JOIN {cell}.payment_outbox_attempts answer
                ON answer.outbox_id = send.outbox_id AND answer.answers_attempt_no = send.attempt_no
              WHERE send.outbox_id = $1 AND send.state = 'DISPATCHING' AND send.attempt_no < later.attempt_no
                AND answer.result IN ({send_refusing_results}) AND answer.rail_reference = refusal.rail_reference)))
      -- A send that a restore forgot, of a claim after the one that was refused.
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts told
        WHERE told.outbox_id = $1 AND told.state = 'LATE_OUTCOME' AND told.answers_attempt_no IS NULL
          AND told.result IN ('EXECUTED', {reached_results}) AND told.claimed_at > refusal.claimed_at))
$$;
