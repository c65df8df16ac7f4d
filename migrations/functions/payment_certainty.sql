-- payment_certainty(outbox_id uuid, settled boolean) -> text
--   What is known about the money, in the terms of the ledger package's Certainty: NOT_SENT,
--   OUTCOME_UNKNOWN, ACCEPTED, REFUSED, CONTRADICTED, EXECUTED_BY_EVIDENCE or
--   NOT_EXECUTED_BY_EVIDENCE. An instruction that may have reached the rail and has no trustworthy
--   answer is OUTCOME_UNKNOWN, whatever its age, and so is one that was not executed by the rows of this cell alone,
--   while another cell has its key, too, or may have it (other_cell_key), and no operator's evidence says so. settled is the result of server_is_settled; it
--   does not depend on the instruction, so that a caller evaluates it once for many.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_outbox_pending, payment_dead_letters,
--          payment_operator_log, and what repeats_forgotten_call and other_cell_key read.   locks: nothing.
-- called by: status_of_payments, inquire_payment, replay_payment, require_rails_word, event_outcome_unknown, known_call. Timeline.Certainty
--          implements the same rule.
CREATE OR REPLACE FUNCTION {cell}.payment_certainty(outbox_id uuid, settled boolean) RETURNS text
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  last     {cell}.payment_outbox_attempts; -- the last row that is not LATE_OUTCOME
  refused  {cell}.payment_outbox_attempts; -- the latest row that proves that a send was not executed
  waiting  {cell}.payment_outbox_pending;
  waits    boolean;
  ended    boolean;
  doubted  boolean; -- evidence after the last state contradicts it
BEGIN
  IF EXISTS (
    SELECT FROM {cell}.payment_dead_letters d
    WHERE d.outbox_id = $1 AND d.reason = 'CONFLICT' AND d.status NOT IN ({closed_letters}))
  THEN
    RETURN 'CONTRADICTED';
  END IF;
  SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1;
  waits := FOUND;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  ended := coalesce(last.state IN ({ended_states}), false);
  IF last.state = 'DISPATCHED' THEN
    RETURN CASE WHEN {cell}.rests_on_evidence(last) THEN 'EXECUTED_BY_EVIDENCE' ELSE 'ACCEPTED' END;
  END IF;
  IF NOT $2
    OR last.state = 'DISPATCHING' OR last.provisional OR last.outcome_unknown
    OR waits AND (waiting.provisional OR waiting.outcome_unknown)
  THEN
    RETURN 'OUTCOME_UNKNOWN';
  END IF;
  SELECT a.* INTO refused FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1
    AND (a.result IN ({send_refusing_results}, 'REFUSED_LATER')
      OR a.result = 'REFUSED_RAIL' AND a.rail_code <> ''
      OR a.result = 'NOT_FOUND' AND NOT a.outcome_unknown AND a.state <> 'LATE_OUTCOME'
      OR a.state = 'FAILED' AND a.error_code = 'RESOLVED')
    -- A refusal that follows an operator's evidence is of another send, or may be of one among
    -- several.
    AND (a.result IS NOT DISTINCT FROM 'REFUSED' AND a.state <> 'LATE_OUTCOME' OR (
      SELECT r.state = 'FAILED' AND r.error_code IS NOT DISTINCT FROM 'RESOLVED'
      FROM {cell}.payment_outbox_attempts r
      WHERE r.outbox_id = $1 AND r.result = 'REFUSED' AND r.state <> 'LATE_OUTCOME' AND r.attempt_no < a.attempt_no
      ORDER BY r.attempt_no DESC LIMIT 1) IS NOT TRUE)
  ORDER BY a.attempt_no DESC LIMIT 1;
  doubted := EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state = 'LATE_OUTCOME' AND a.result IN ({paid_after_all_results})
      AND a.attempt_no > coalesce(last.attempt_no, 0));
  IF doubted AND (last.state = 'CANCELLED' OR last.state = 'FAILED' AND refused.outbox_id IS NULL) THEN
    RETURN 'NOT_EXECUTED_BY_EVIDENCE';
  END IF;
  IF doubted AND NOT ended THEN
    RETURN 'OUTCOME_UNKNOWN';
  END IF;
  -- A refusal that never reached the payment, or a send that never left, says nothing about the
  -- call that this one may repeat.
  IF (refused.outbox_id IS NULL OR refused.result IN ({left_nothing_results}))
    AND {cell}.repeats_forgotten_call((SELECT k.created_at FROM {cell}.payment_outbox_keys k
      WHERE k.outbox_id = $1)) IS NOT NULL
  THEN
    RETURN 'OUTCOME_UNKNOWN';
  END IF;
  IF refused.outbox_id IS NOT NULL THEN
    RETURN CASE
      WHEN ended AND {cell}.rests_on_evidence(last)
        OR (ended OR refused.attempt_no <> last.attempt_no) AND {cell}.rests_on_evidence(refused)
          THEN 'NOT_EXECUTED_BY_EVIDENCE'
      -- The rail has refused the sends of this cell.
      WHEN EXISTS (SELECT FROM {cell}.other_cell_key($1)) THEN 'OUTCOME_UNKNOWN'
      ELSE 'REFUSED' END;
  END IF;
  RETURN CASE
    WHEN EXISTS (SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 AND a.outcome_unknown)
      THEN 'OUTCOME_UNKNOWN'
    WHEN last.outbox_id IS NULL AND NOT waits THEN 'OUTCOME_UNKNOWN' -- only its registry row is left
    WHEN EXISTS (SELECT FROM {cell}.other_cell_key($1)) THEN 'OUTCOME_UNKNOWN'
    ELSE 'NOT_SENT' END;
END
$$;
