-- answer_open_claim(o outbox_outcome, claim payment_outbox_attempts, last_no integer, whole boolean) -> text
--   Appends the outcome of a claim that only LATE_OUTCOME rows follow, weighed
--   against them: proof of execution among them ends the claim as DISPATCHED,
--   whatever the outcome itself says, and proof under a reference that the rail
--   refused opens a CONFLICT as well (refused_and_executed), and so does the answer to another
--   send that turned out to be no last word (rests_on_acceptance). A send that turned out to be unknown, or
--   taken for now, since the claim was made, stays so: FAILED becomes PARKED, and
--   what was taken is asked about and not sent again; unless the outcome is a
--   refusal of the whole payment. FAILED becomes PARKED also where a restore may have forgotten a
--   send of which the refusal says nothing; and what is sent again is no first send then, if it was
--   refused for now, or if the claim is older than what was noticed. An acceptance is the last word only by all profiles that
--   sends were made under, as far as that is known by now; else the payment is taken for
--   now. Where a send was refused meanwhile with a code that
--   ends its key, the key is not sent again: the payment is parked. Then does what the
--   outcome asks for: back to pending, or to the dead letters.
-- returns: IN, SETTLED (by the proof) or CONFLICT.   errors: 23505 when the number is taken.
-- reads:   payment_outbox_attempts, payment_outbox_suspensions, and what send_may_be_forgotten, may_be_forgotten_until, standing_sends, refused_and_executed, executed_twice,
--          rail_keeps_one_outcome, acceptance_of_sends, rests_on_acceptance and open_dead_letters read.
-- writes:  payment_outbox_attempts, payment_outbox_pending, payment_dead_letters, payment_outbox_contradictions.
-- locks:   the fence's index entries.   called by: record_late_outcome, which holds the keys row.
CREATE OR REPLACE FUNCTION {cell}.answer_open_claim(
  o {cell}.outbox_outcome, claim {cell}.payment_outbox_attempts, last_no integer, whole boolean) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  executes boolean := o.state = 'DISPATCHED';
  proof    {cell}.payment_outbox_attempts;
  proven   boolean;
  refused_since  boolean; -- the payment, since the claim; during an inquiry, no repeated refusal of a send before the proof
  two_references boolean; -- of executions, since the claim
  doubted  boolean;
  taken    boolean;
  found_none boolean := o.result = 'NOT_FOUND' AND o.next_action = 'SEND'; -- it is believed
  next_no  integer := last_no + 1;
  spent    text; -- the code of a refusal that ended the key
  told     record; -- of sends that a restore forgot
  earlier  boolean := false; -- than a failover, of which its worker may not have known
  forgotten_at timestamptz; -- the first send that it may have forgotten
BEGIN
  SELECT a.* INTO proof FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no
    AND a.state = 'LATE_OUTCOME' AND a.result = 'EXECUTED'
  ORDER BY a.attempt_no LIMIT 1;
  proven := FOUND;
  IF executes AND NOT proven AND o.claim_no IS NOT NULL AND claim.state = 'DISPATCHING'
    AND {cell}.is_only_taken({cell}.acceptance_of_sends(o.outbox_id), o.result)
  THEN
    executes := false;
    o.state := 'ACCEPTED';
    o.result := 'ACCEPTED';
    o.next_action := 'INQUIRE';
    o.delay_ms := 0;
    o.outcome_unknown := true;
    o.provisional := true;
  END IF;
  SELECT coalesce(bool_or(a.result = 'REFUSED' AND (claim.state = 'DISPATCHING' OR a.attempt_no > proof.attempt_no OR NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts send
      JOIN {cell}.payment_outbox_attempts answer ON answer.outbox_id = o.outbox_id AND answer.answers_attempt_no = send.attempt_no
      WHERE send.outbox_id = o.outbox_id AND send.state = 'DISPATCHING'
        AND answer.result IN ({send_refusing_results}) AND answer.rail_reference = a.rail_reference))), false),
    coalesce(bool_or(a.result = 'EXECUTED' AND a.rail_reference <> coalesce(CASE WHEN executes THEN o.rail_reference END, proof.rail_reference)), false)
  INTO refused_since, two_references
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no AND a.state = 'LATE_OUTCOME';

  IF proven AND NOT executes THEN
    IF o.result IS NOT NULL THEN
      PERFORM {cell}.append_outbox_row(o, o.attempt_id, next_no, 'LATE_OUTCOME', claim.attempt_no,
        claim.outcome_unknown, o.result, o.rail_reference);
      next_no := next_no + 1;
    END IF;
    PERFORM {cell}.append_outbox_row(o, CASE WHEN o.result IS NULL THEN o.attempt_id ELSE {cell}.uuidv7() END, next_no,
      'DISPATCHED', claim.attempt_no, false, 'EXECUTED', proof.rail_reference);
    -- A refusal that speaks for the payment contradicts the proof, and so does one of the
    -- last send that may have been executed, or under its reference, or another reference.
    IF o.result = 'REFUSED' OR refused_since OR two_references
      OR o.result IN ({refusing_results}) AND NOT EXISTS (SELECT FROM {cell}.standing_sends(o.outbox_id) s WHERE NOT s.settled)
      OR {cell}.refused_and_executed(o.outbox_id, claim.attempt_no) OR {cell}.executed_twice(o.outbox_id, claim.attempt_no, false)
      OR {cell}.rests_on_acceptance(o.outbox_id)
    THEN
      PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY['CONFLICT'],
        ARRAY[CASE WHEN two_references THEN 'TWO_REFERENCES' ELSE coalesce(o.error_code, o.rail_code) END]);
      RETURN 'CONFLICT';
    END IF;
    RETURN 'SETTLED';
  END IF;

  -- What the claim knew of, the outcome has weighed; but "no such payment" is not said
  -- of a send that was learned of while the inquiry was out, and not believed of what
  -- the rail has shown meanwhile to know (rail_has_seen).
  SELECT (NOT claim.outcome_unknown OR found_none) AND coalesce(bool_or(a.result IN ({doubtful_results})
      OR a.outcome_unknown AND NOT claim.outcome_unknown OR found_none AND a.result IN ({showing_results})), false)
      -- A final refusal spoke for every send, as far as was known by which profiles they were made.
      OR claim.outcome_unknown AND o.state = 'FAILED' AND coalesce(bool_or(a.result IN ({doubtful_results})
        OR a.answers_attempt_no IS NULL AND a.claimed_at IS NOT NULL AND a.result IN ({inquiry_results})), false)
        AND NOT {cell}.rail_keeps_one_outcome(o.outbox_id)
      -- It was weighed by what its worker knew when it called: the data may have gone back since.
      OR o.state = 'FAILED' AND {cell}.send_may_be_forgotten(o.outbox_id)
        AND NOT (coalesce(o.result IN ({refusing_results}), false) AND {cell}.rail_keeps_one_outcome(o.outbox_id)),
    NOT claim.provisional AND coalesce(bool_or(a.result = 'ACCEPTED'), false)
  INTO doubted, taken
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no AND a.state = 'LATE_OUTCOME';
  -- A refusal of one send among several leaves unknown what it decided to be over.
  IF (doubted OR taken OR o.result = 'REFUSED') AND NOT executes AND whole IS NOT TRUE THEN
    o.outcome_unknown := true;
    o.provisional := coalesce(o.provisional, false) OR taken;
    IF (taken OR found_none) AND o.next_action IS NOT NULL THEN
      o.next_action := 'INQUIRE';
    END IF;
    IF o.state = 'FAILED' THEN
      o.state := 'PARKED';
      o.dead_reason := 'OUTCOME_UNKNOWN';
    END IF;
  END IF;

  -- What the old server recorded of the claim, and sent since, is forgotten. Of what a worker claims
  -- after the failover it knows that, and that nothing left is no doubt then.
  IF o.next_action = 'SEND' AND NOT o.outcome_unknown THEN
    earlier := coalesce(claim.claimed_at < {cell}.may_be_forgotten_until(o.outbox_id), false);
    o.outcome_unknown := earlier OR coalesce(o.result IN ({for_now_results}), false) AND {cell}.send_may_be_forgotten(o.outbox_id);
  END IF;

  IF o.next_action = 'SEND' THEN
    spent := (
      SELECT a.error_code FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no
        AND a.state = 'LATE_OUTCOME' AND a.result IN ({for_now_results})
        AND a.error_code IN ({spent_codes})
        -- Unless an operator had it replayed after that one.
        AND coalesce(a.answers_attempt_no, 0) >= coalesce((
          SELECT max(r.attempt_no) FROM {cell}.payment_outbox_attempts r
          WHERE r.outbox_id = o.outbox_id AND r.state = 'REPLAYED'), 0)
      ORDER BY a.attempt_no LIMIT 1);
    IF spent IS NOT NULL THEN
      o.outcome_unknown := true;
      o.next_action := NULL;
      o.park_attempt_id := coalesce(o.park_attempt_id, {cell}.uuidv7());
      o.dead_reason := 'OUTCOME_UNKNOWN';
    END IF;
  END IF;

  PERFORM {cell}.append_outbox_row(o, o.attempt_id, next_no, o.state, claim.attempt_no,
    o.outcome_unknown AND NOT executes, o.result, o.rail_reference);
  o.error_code := coalesce(spent, o.error_code);
  IF executes THEN
    -- A report of a send that is out is the proof itself.
    IF refused_since AND (proven OR o.claim_no IS NULL AND claim.state = 'DISPATCHING')
      OR proven AND (two_references OR {cell}.rests_on_acceptance(o.outbox_id))
      OR {cell}.refused_and_executed(o.outbox_id, claim.attempt_no) OR {cell}.executed_twice(o.outbox_id, claim.attempt_no, o.claim_no IS NOT NULL)
    THEN
      PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY['CONFLICT'], ARRAY[CASE WHEN proven AND two_references THEN 'TWO_REFERENCES' END]);
      RETURN 'CONFLICT';
    END IF;
    RETURN 'IN';
  END IF;
  IF o.park_attempt_id IS NOT NULL THEN
    next_no := next_no + 1;
    PERFORM {cell}.append_outbox_row(o, o.park_attempt_id, next_no, 'PARKED', NULL, o.outcome_unknown, NULL, NULL);
  END IF;
  IF o.dead_reason IS NOT NULL THEN
    PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY[o.dead_reason], ARRAY[coalesce(o.error_code, o.rail_code)]);
  END IF;
  IF o.next_action IS NOT NULL THEN
    SELECT f.* INTO told FROM {cell}.forgotten_sends(o.outbox_id) f;
    IF earlier THEN
      forgotten_at := (SELECT min(greatest(s.known_until, 'epoch')) FROM {cell}.payment_outbox_suspensions s WHERE s.opened_at > claim.claimed_at);
    END IF;
    INSERT INTO {cell}.payment_outbox_pending AS p
      (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at, headers, next_action, outcome_unknown, provisional,
       first_sent_at, last_sent_at, send_count, inquiry_count, render_version)
    VALUES (claim.outbox_id, claim.participant_id, claim.rail_type, claim.payload, next_no, clock_timestamp() + make_interval(secs => o.delay_ms / 1000.0),
      claim.enqueued_at, claim.priority, claim.expires_at, claim.headers, o.next_action, o.outcome_unknown, o.provisional,
      least(CASE WHEN o.counts_send THEN coalesce(claim.first_sent_at, claim.claimed_at) ELSE claim.first_sent_at END, told.first_at, forgotten_at),
      greatest(CASE WHEN o.counts_send THEN claim.claimed_at ELSE claim.last_sent_at END, told.last_at, forgotten_at),
      o.send_count, o.inquiry_count, CASE WHEN o.counts_send OR claim.first_sent_at IS NOT NULL OR earlier THEN claim.render_version END)
    -- It was put back while the claim was out, and counts no row: see record.
    ON CONFLICT ON CONSTRAINT payment_outbox_pending_pk DO UPDATE SET
      attempt_count = 0,
      outcome_unknown = p.outcome_unknown OR excluded.outcome_unknown;
  END IF;
  RETURN 'IN';
END
$$;
