-- cancel_payment(outbox_id uuid, reason text) -> integer
--   Cancels a pending instruction of which no send can have been executed. Returns the attempt_no
--   of the CANCELLED row. It is atomic with respect to claims: it waits for a claim in progress,
--   and the first of the two takes the row.
-- errors:  RH002 without a reason, RH010 unknown instruction, RH020 it can't be
--          cancelled, with the reason, or a suspension is open;
--          55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_rails, payment_rail_profiles, and what require_settled_server reads.
-- writes:  payment_outbox_pending, payment_outbox_attempts, payment_dead_letters, payment_order_marks, payment_operator_log.
-- locks:   the keys row, then the pending row.   called by: operator, api_cancel, api_cancel_status.
CREATE OR REPLACE FUNCTION {cell}.cancel_payment(outbox_id uuid, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  waiting {cell}.payment_outbox_pending;
  number  integer;
BEGIN
  PERFORM {cell}.require_reason(cancel_payment.reason);
  PERFORM {cell}.require_settled_server('a cancellation');
  PERFORM {cell}.lock_payment(cancel_payment.outbox_id);
  SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = cancel_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and can''t be cancelled',
        coalesce({cell}.payment_outbox_state(cancel_payment.outbox_id), 'gone from the archive')),
      HINT = 'Only a pending instruction can be cancelled. A claimed one may be on its way to the rail.';
  END IF;
  IF {cell}.put_back_after(cancel_payment.outbox_id) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and was put back in pending: it can''t be cancelled',
        {cell}.put_back_after(cancel_payment.outbox_id)),
      HINT = CASE WHEN {cell}.put_back_after(cancel_payment.outbox_id) IN ({ended_states}, {claim_states})
        THEN 'A claim quarantines it. Then close its dead letter, or resolve it if it may have been paid.'
        ELSE 'A claim quarantines it. Find out from the rail what became of the payment, then resolve it with that '
          'evidence, which removes it from pending.' END;
  END IF;
  IF waiting.outcome_unknown THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'some send of the instruction has no trustworthy answer: it may have been paid and can''t be cancelled',
      HINT = 'Wait for the rail''s evidence, or resolve it with evidence of your own once it is parked. payment '
        'reschedule postpones a re-send.';
  END IF;
  DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = cancel_payment.outbox_id;
  number := waiting.attempt_count + 1;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, participant_id, rail_type, attempt_no, state, completed_at, error_message, render_version,
      outcome_unknown, provisional,
     payload, headers, priority, expires_at, enqueued_at, next_attempt_at, next_action,
     first_sent_at, last_sent_at, send_count, inquiry_count)
  VALUES ({cell}.uuidv7(), waiting.outbox_id, waiting.participant_id, waiting.rail_type, number, 'CANCELLED',
    clock_timestamp(), cancel_payment.reason,
    waiting.render_version, false, false, waiting.payload, waiting.headers, waiting.priority, waiting.expires_at,
    waiting.created_at, waiting.next_attempt_at, waiting.next_action, waiting.first_sent_at, waiting.last_sent_at,
    waiting.send_count, waiting.inquiry_count);
  PERFORM {cell}.close_letter(cancel_payment.outbox_id, 'resolved', cancel_payment.reason);
  PERFORM {cell}.note_order_change(waiting.outbox_id, waiting.rail_type, false);
  PERFORM {cell}.notify_outcome(waiting.outbox_id);
  PERFORM {cell}.log_operator_act('CANCEL', {cell}.instruction_of(waiting.outbox_id), waiting.outbox_id,
    cancel_payment.reason);
  RETURN number;
END
$$;
