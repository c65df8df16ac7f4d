-- answer_open_claim(o outbox_outcome, claim payment_outbox_attempts, last_no integer, whole boolean) -> text
--   Appends the outcome of an open claim, one that only LATE_OUTCOME rows follow, and judges it
--   together with those rows. Then applies what the outcome asks for: returns the instruction to
--   pending, or opens its dead letter.
--
--   Proof of execution among the LATE_OUTCOME rows ends the claim as DISPATCHED, whatever the
--   outcome is. A CONFLICT is opened too if the rail refused the payment under the reference of the
--   proof (refused_and_executed), or if the instruction rests on an acceptance that turned out not
--   to be final (rests_on_acceptance).
--
--   If a send became unknown, or was accepted provisionally, after the claim was made, it stays so:
--   FAILED becomes PARKED, and a provisionally accepted instruction is inquired about and not sent
--   again. The exception is a refusal of the whole payment. FAILED also becomes PARKED if a restore
--   may have forgotten a send that the refusal does not cover. The next send then does not count as
--   a first send, if this one was refused for now or if the claim is older than the time at which
--   the restore was noticed.
--
--   An acceptance is final only by every profile, as far as they are known by now, under which the
--   instruction was sent; otherwise it is provisional. If a send was meanwhile refused with a code
--   that ends its rail key, the key is not sent again and the payment is parked.
-- returns: IN, SETTLED (by the proof) or CONFLICT.   errors: 23505 if the number is taken.
-- reads:   payment_outbox_attempts, payment_outbox_suspensions, and what send_may_be_forgotten,
--          may_be_forgotten_until, standing_sends, refused_and_executed, executed_twice, rail_keeps_one_outcome,
--          acceptance_of_sends, rests_on_acceptance, open_dead_letters and open_conflict read.
-- writes:  payment_outbox_attempts, payment_outbox_pending, payment_dead_letters, payment_outbox_contradictions,
--          payment_order_marks.
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
  -- the payment was refused since the claim; during an inquiry, not a repeated refusal of a send before the proof
  refused_since  boolean;
  two_references boolean; -- two executions since the claim have different references
  doubted  boolean;
  taken    boolean;
  found_none boolean := o.result = 'NOT_FOUND' AND o.next_action = 'SEND'; -- "no such payment" is accepted
  next_no  integer := last_no + 1;
  spent    text; -- the code of a refusal that ended the rail key
  reference text COLLATE "C"; -- of the execution: its own, else that of the proof
  told     record; -- reported sends that a restore forgot
  earlier  boolean := false; -- the claim is older than a failover, which its worker may not have noticed
  forgotten_at timestamptz; -- when the failover may first have forgotten a send
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
  reference := {cell}.clean_reference(coalesce(CASE WHEN executes THEN o.rail_reference END, proof.rail_reference));
  SELECT coalesce(bool_or(a.result = 'REFUSED' AND (claim.state = 'DISPATCHING' OR a.attempt_no > proof.attempt_no
    OR NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts send
      JOIN {cell}.payment_outbox_attempts answer ON answer.outbox_id = o.outbox_id
        AND answer.answers_attempt_no = send.attempt_no
      WHERE send.outbox_id = o.outbox_id AND send.state = 'DISPATCHING'
        AND answer.result IN ({send_refusing_results})
        AND {cell}.clean_reference(answer.rail_reference) = {cell}.clean_reference(a.rail_reference)))), false),
    coalesce(bool_or(a.result = 'EXECUTED' AND {cell}.clean_reference(a.rail_reference) <> reference), false)
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
    -- These contradict the proof: a refusal of the whole payment, a refusal of the last send that
    -- may have been executed or under its reference, and another reference.
    IF o.result = 'REFUSED' OR refused_since OR two_references
      OR o.result IN ({refusing_results}) AND NOT EXISTS (SELECT FROM {cell}.standing_sends(o.outbox_id) s
        WHERE NOT s.settled)
      OR {cell}.refused_and_executed(o.outbox_id, claim.attempt_no)
        OR {cell}.executed_twice(o.outbox_id, claim.attempt_no, false)
      OR {cell}.rests_on_acceptance(o.outbox_id)
    THEN
      PERFORM {cell}.open_conflict(o.outbox_id,
        CASE WHEN two_references THEN 'TWO_REFERENCES' ELSE coalesce(o.error_code, o.rail_code) END);
      RETURN 'CONFLICT';
    END IF;
    RETURN 'SETTLED';
  END IF;

  -- The outcome accounts for every send that was known when the claim was made. "No such payment"
  -- does not cover a send that became known during the inquiry, and is not accepted if the rail has
  -- meanwhile shown that it knows the payment (rail_has_seen).
  SELECT (NOT claim.outcome_unknown OR found_none) AND coalesce(bool_or(a.result IN ({doubtful_results})
      OR a.outcome_unknown AND NOT claim.outcome_unknown OR found_none AND a.result IN ({showing_results})), false)
      -- A final refusal covers every send, by the profiles under which they were known to be made.
      OR claim.outcome_unknown AND o.state = 'FAILED' AND coalesce(bool_or(a.result IN ({doubtful_results})
        OR a.answers_attempt_no IS NULL AND a.claimed_at IS NOT NULL AND a.result IN ({inquiry_results})), false)
        AND NOT {cell}.rail_keeps_one_outcome(o.outbox_id)
      -- The worker judged the answer by what it knew when it called. The data may have gone back
      -- since.
      OR o.state = 'FAILED' AND {cell}.send_may_be_forgotten(o.outbox_id)
        AND NOT (coalesce(o.result IN ({refusing_results}), false) AND {cell}.rail_keeps_one_outcome(o.outbox_id)),
    NOT claim.provisional AND coalesce(bool_or(a.result = 'ACCEPTED'), false)
  INTO doubted, taken
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no AND a.state = 'LATE_OUTCOME';
  -- A refusal of one send among several leaves the others unknown.
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

  -- Everything that the old server recorded of this claim, and sent later, is forgotten. The worker
  -- of a claim that was made after the failover knows of it. For such a claim, an answer which
  -- proves that nothing left raises no doubt.
  IF o.next_action = 'SEND' AND NOT o.outcome_unknown THEN
    earlier := coalesce(claim.claimed_at < {cell}.may_be_forgotten_until(o.outbox_id), false);
    o.outcome_unknown := earlier OR coalesce(o.result IN ({for_now_results}), false)
      AND {cell}.send_may_be_forgotten(o.outbox_id);
  END IF;

  IF o.next_action = 'SEND' THEN
    spent := (
      SELECT a.error_code FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no
        AND a.state = 'LATE_OUTCOME' AND a.result IN ({for_now_results})
        AND a.error_code IN ({spent_codes})
        -- A refusal before the last replay does not count.
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
    -- A report that arrives while the send is in flight is the proof itself.
    IF refused_since AND (proven OR o.claim_no IS NULL AND claim.state = 'DISPATCHING')
      OR proven AND (two_references OR {cell}.rests_on_acceptance(o.outbox_id))
      OR {cell}.refused_and_executed(o.outbox_id, claim.attempt_no)
        OR {cell}.executed_twice(o.outbox_id, claim.attempt_no, o.claim_no IS NOT NULL)
    THEN
      PERFORM {cell}.open_conflict(o.outbox_id, CASE WHEN proven AND two_references THEN 'TWO_REFERENCES' END);
      RETURN 'CONFLICT';
    END IF;
    RETURN 'IN';
  END IF;
  IF o.park_attempt_id IS NOT NULL THEN
    next_no := next_no + 1;
    PERFORM {cell}.append_outbox_row(o, o.park_attempt_id, next_no, 'PARKED', NULL, o.outcome_unknown, NULL, NULL);
  END IF;
  IF o.dead_reason IS NOT NULL THEN
    PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY[o.dead_reason],
      ARRAY[coalesce(o.error_code, o.rail_code)]);
  END IF;
  IF o.next_action IS NOT NULL THEN
    SELECT f.* INTO told FROM {cell}.forgotten_sends(o.outbox_id) f;
    IF earlier THEN
      forgotten_at := (SELECT min(greatest(s.known_until, 'epoch')) FROM {cell}.payment_outbox_suspensions s
        WHERE s.opened_at > claim.claimed_at);
    END IF;
    INSERT INTO {cell}.payment_outbox_pending AS p
      (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
        headers, next_action, outcome_unknown, provisional,
       first_sent_at, last_sent_at, send_count, inquiry_count, render_version)
    VALUES (claim.outbox_id, claim.participant_id, claim.rail_type, claim.payload, next_no,
      clock_timestamp() + make_interval(secs => o.delay_ms / 1000.0),
      claim.enqueued_at, claim.priority, claim.expires_at, claim.headers, o.next_action, o.outcome_unknown,
      o.provisional, least(CASE WHEN o.counts_send THEN coalesce(claim.first_sent_at, claim.claimed_at)
        ELSE claim.first_sent_at END, told.first_at, forgotten_at),
      greatest(CASE WHEN o.counts_send THEN claim.claimed_at ELSE claim.last_sent_at END, told.last_at, forgotten_at),
      o.send_count, o.inquiry_count, CASE WHEN o.counts_send
        OR claim.first_sent_at IS NOT NULL OR earlier THEN claim.render_version END)
    -- A row that is there already was put back while the instruction was claimed. It gets
    -- attempt_count 0: see record.sql.
    ON CONFLICT ON CONSTRAINT payment_outbox_pending_pk DO UPDATE SET
      attempt_count = 0,
      outcome_unknown = p.outcome_unknown OR excluded.outcome_unknown;
  END IF;
  RETURN 'IN';
END
$$;
