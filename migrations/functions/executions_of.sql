-- executions_of(outbox_id uuid) -> setof record (attempt_no, claim_no, claimed_at, rail_reference, by_another)
--   The rows that report one send of an instruction as executed: the answer of the send itself, or
--   a report that arrived while the send was in flight. claim_no is null for a send that a restore
--   forgot. by_another: the row does not rest on the answer of the send itself but on a report,
--   during its flight, about another send or about the payment. payment.History implements the same
--   rule.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: executed_twice, record_late_outcome.
CREATE OR REPLACE FUNCTION {cell}.executions_of(
  outbox_id uuid, OUT attempt_no integer, OUT claim_no integer, OUT claimed_at timestamptz, OUT rail_reference text,
  OUT by_another boolean) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT e.attempt_no, s.attempt_no, coalesce(s.claimed_at, e.claimed_at), e.rail_reference,
    e.state = 'DISPATCHED' AND e.result = 'EXECUTED' AND EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts proof
      WHERE proof.outbox_id = $1 AND proof.state = 'LATE_OUTCOME' AND proof.result = 'EXECUTED'
        AND proof.attempt_no > s.attempt_no AND proof.attempt_no < e.attempt_no
          AND proof.answers_attempt_no IS DISTINCT FROM s.attempt_no)
  FROM {cell}.payment_outbox_attempts e
  LEFT JOIN {cell}.payment_outbox_attempts s ON s.outbox_id = $1 AND s.attempt_no = e.answers_attempt_no
    AND s.state = 'DISPATCHING'
  WHERE e.outbox_id = $1
    AND (s.attempt_no IS NOT NULL AND (e.state = 'DISPATCHED' OR e.state = 'LATE_OUTCOME' AND e.result = 'EXECUTED')
      OR e.answers_attempt_no IS NULL AND e.claimed_at IS NOT NULL AND e.state = 'LATE_OUTCOME'
        AND e.result = 'EXECUTED');
END
$$;
