-- standing_sends(outbox_id uuid) -> setof record (attempt_no, claimed_at, forgotten, settled)
--   The known sends of an instruction that may have been executed, by the evidence about them: none
--   was refused by its own answer, or proved not to have left. A report is not a send. settled: the
--   payment has since ended as FAILED, by the rail's refusal of the payment or by an operator's
--   evidence. payment.History implements the same rule.
-- reads:   payment_outbox_attempts, and what sends_of reads.   locks: nothing.
-- called by: refused_and_executed, record_late_outcome, answer_open_claim.
CREATE OR REPLACE FUNCTION {cell}.standing_sends(
  outbox_id uuid, OUT attempt_no integer, OUT claimed_at timestamptz, OUT forgotten boolean, OUT settled boolean)
    RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT s.attempt_no, s.claimed_at, s.forgotten, EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts f
    WHERE f.outbox_id = $1 AND f.state = 'FAILED' AND f.result IN ({refusing_results}) AND f.attempt_no > s.attempt_no)
  FROM {cell}.sends_of($1) s
  WHERE NOT s.denied AND NOT (s.executed AND s.claimed_at IS NULL) AND NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts own
    WHERE own.outbox_id = $1 AND own.result IN ({send_refusing_results})
      AND CASE WHEN s.forgotten THEN own.attempt_no ELSE own.answers_attempt_no END = s.attempt_no);
END
$$;
