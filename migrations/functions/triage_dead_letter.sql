-- triage_dead_letter(outbox_id uuid, status text, reason text) -> text
--   Sets an open dead letter to acknowledged or escalated, or closes it as resolved if nothing
--   about the payment is unknown any more, by its rows and not by the reason of the letter alone. A contradiction that
--   no operator has settled keeps a letter of every reason open. A payment that is proven to be executed needs no further
--   evidence, even if its payload was tampered with. Closing the letter of a row that was put back
--   deletes the pending row; if the payment was parked, or was pending with a newer row, it has to
--   be resolved instead. A forged payment, which was never registered, can be closed if no send of
--   it can have reached a rail; this deletes its pending row too. Returns the previous status.
-- errors:  RH002 without a reason or with another status; RH010 no dead letter;
--          RH020 it can't be closed, with the reason;
--          55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_rails, payment_rail_profiles, and what
--          unsettled_contradiction, require_settled_server and left_the_archive read.
-- writes:  payment_dead_letters, payment_outbox_pending, payment_order_marks, payment_operator_log.
-- locks:   the keys row, then the letter's row, then the pending row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.triage_dead_letter(outbox_id uuid, status text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter {cell}.payment_dead_letters;
  ended  text;
  waits  boolean;
  forged boolean;
  torn   integer; -- the row of a contradiction that no operator has settled
  says   text; -- what the letter says, where the rows say otherwise
BEGIN
  PERFORM {cell}.require_reason(triage_dead_letter.reason);
  IF triage_dead_letter.status IS NULL OR triage_dead_letter.status NOT IN ({triage_words}) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'status must be acknowledged, escalated or resolved';
  END IF;
  IF triage_dead_letter.status = 'resolved' THEN
    PERFORM {cell}.require_settled_server('closing a dead letter');
  END IF;
  forged := NOT EXISTS (SELECT FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = triage_dead_letter.outbox_id)
    AND EXISTS (SELECT FROM {cell}.payment_dead_letters d WHERE d.outbox_id = triage_dead_letter.outbox_id);
  IF NOT forged THEN
    PERFORM {cell}.lock_payment(triage_dead_letter.outbox_id);
  END IF;
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = triage_dead_letter.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'the instruction has no dead letter';
  END IF;
  IF letter.status IN ({closed_letters}) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = format('the dead letter is already closed (%s)', letter.status);
  END IF;
  IF triage_dead_letter.status = 'resolved' THEN
    -- A worker may be about to return the payment to pending; this waits for it.
    PERFORM FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = triage_dead_letter.outbox_id FOR UPDATE;
    waits := FOUND;
    ended := {cell}.put_back_after(triage_dead_letter.outbox_id);
    torn := {cell}.unsettled_contradiction(triage_dead_letter.outbox_id);
    says := CASE
      WHEN letter.reason = 'CONFLICT' OR forged THEN NULL
      WHEN torn IS NOT NULL THEN format('row %s contradicts what was said before', torn)
      WHEN letter.reason NOT IN ({unpaid_reasons}) THEN NULL
      WHEN ended = 'FAILED' OR ended IS NULL AND NOT waits AND {cell}.left_the_archive(letter.outbox_id) THEN NULL
      ELSE format('the instruction is %s', coalesce(ended, {cell}.payment_outbox_state(letter.outbox_id), 'gone')) END;
  END IF;
  IF triage_dead_letter.status = 'resolved' AND NOT coalesce(
    CASE WHEN forged THEN NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts s
      WHERE s.outbox_id = triage_dead_letter.outbox_id AND s.state <> 'PARKED'
        AND (s.state <> 'DISPATCHING' OR NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts answer
          WHERE answer.outbox_id = s.outbox_id AND answer.answers_attempt_no = s.attempt_no
            AND answer.state = 'PARKED' AND answer.result = 'TAMPERED')))
    ELSE says IS NULL AND CASE letter.reason
      WHEN 'UNCLAIMABLE' THEN ended IN ({ended_states}, {claim_states})
        -- The row was removed from pending before its first claim.
        OR NOT waits AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = triage_dead_letter.outbox_id)
      WHEN 'TAMPERED' THEN ended = 'DISPATCHED'
      ELSE letter.reason IN ({unpaid_reasons}) END END, false)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('a dead letter of reason %s can''t be closed by this act', letter.reason) || coalesce(': ' || says, ''),
      HINT = CASE
      WHEN says IS NOT NULL
        THEN 'Its rows do not say that it was not paid. Find out who changed the dead letter (railhead prove run '
          'nothing-lost), and from the rail what became of the payment, then resolve it with that evidence.'
      WHEN forged
        THEN 'The payment was never enqueued here, and by its rows a send of it may have reached the rail. '
        || 'Find out from the rail what became of it, and escalate it: its rows prove nothing.'
      ELSE CASE letter.reason
        WHEN 'UNCLAIMABLE' THEN CASE
          WHEN NOT waits
            THEN 'Its row in pending is missing. Find out from the rail what became of the payment, then resolve it '
              'with that evidence.'
          WHEN ended IS NULL THEN 'It is still pending: replay it, or cancel it if nothing was ever sent.'
          ELSE format('It was put back in pending after row %s, and may have been paid. ', ended)
            || 'Find out from the rail what became of the payment, then resolve it with that evidence, which '
              'removes it from pending.' END
        ELSE 'Find out from the rail what became of the payment, then resolve it with that evidence.' END END;
  END IF;
  IF ended IS NOT NULL OR forged AND triage_dead_letter.status = 'resolved' THEN
    DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = triage_dead_letter.outbox_id;
  END IF;
  PERFORM {cell}.close_letter(triage_dead_letter.outbox_id, triage_dead_letter.status, triage_dead_letter.reason);
  PERFORM {cell}.log_operator_act('TRIAGE', triage_dead_letter.status, triage_dead_letter.outbox_id,
    triage_dead_letter.reason,
    jsonb_strip_nulls(jsonb_build_object('was', letter.status, 'letter', letter.reason, 'put_back_after', ended,
      'never_enqueued', nullif(forged, false))));
  RETURN letter.status;
END
$$;
