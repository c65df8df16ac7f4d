-- refused_and_executed(outbox_id uuid, after_no integer) -> boolean
--   Whether the rail, by its own statements, both refused and executed the same payment or send,
--   and one of the two statements came after row after_no: the rail contradicts itself. That is so
--   if both are under the same reference, unless the instruction was sent again after the refused
--   send and that send was not refused; but a statement about the payment may repeat the refusal of
--   an earlier send under that reference. It is also so under any reference, or none, if every send
--   was refused, by its own answer or with the payment, and none may be forgotten. payment.History
--   implements the same rule.
-- reads:   payment_outbox_attempts, and what standing_sends, judged_to and send_may_be_forgotten read.
-- locks:   nothing.
-- called by: record_late_outcome, answer_open_claim.
CREATE OR REPLACE FUNCTION {cell}.refused_and_executed(outbox_id uuid, after_no integer) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    WITH a AS (
      SELECT t.*, {cell}.clean_reference(t.rail_reference) AS reference
      FROM {cell}.payment_outbox_attempts t WHERE t.outbox_id = $1
    ),
    -- An operator's evidence is not a statement of the rail, and statements that an operator has
    -- judged do not count again.
    executed AS (
      SELECT a.* FROM a
      WHERE a.attempt_no > {cell}.judged_to($1, false) AND a.error_code IS DISTINCT FROM 'RESOLVED'
        AND (a.state = 'DISPATCHED' OR a.state = 'LATE_OUTCOME' AND a.result = 'EXECUTED')
    ),
    refusal AS (
      SELECT a.* FROM a
      WHERE a.attempt_no > {cell}.judged_to($1, true) AND a.result IN ({refusing_results})
        AND a.error_code IS DISTINCT FROM 'RESOLVED'
    ),
    standing AS (
      SELECT s.* FROM {cell}.standing_sends($1) s
    )
    SELECT EXISTS (
      SELECT FROM executed e
      JOIN refusal r ON r.reference = e.reference
      WHERE greatest(e.attempt_no, r.attempt_no) > $2
        AND NOT EXISTS (
          SELECT FROM standing later
          WHERE NOT later.forgotten
            AND (later.attempt_no > coalesce(r.answers_attempt_no, r.attempt_no)
              OR r.result = 'REFUSED' AND EXISTS (
                SELECT FROM a send
                JOIN a answer ON answer.answers_attempt_no = send.attempt_no
                WHERE send.state = 'DISPATCHING' AND send.attempt_no < later.attempt_no
                  AND answer.result IN ({send_refusing_results}) AND answer.reference = r.reference)))
        -- A send that a restore forgot, of a claim after the refused one.
        AND NOT EXISTS (SELECT FROM standing later WHERE later.forgotten AND later.claimed_at > r.claimed_at))
    OR NOT {cell}.send_may_be_forgotten($1)
      AND EXISTS (SELECT FROM executed e CROSS JOIN refusal r WHERE greatest(e.attempt_no, r.attempt_no) > $2)
      AND NOT EXISTS (
        SELECT FROM standing s
        WHERE NOT EXISTS (SELECT FROM refusal r WHERE r.state = 'FAILED' AND r.attempt_no > s.attempt_no)));
END
$$;
