-- resolve_payment(outbox_id uuid, executed boolean, rail_reference text, evidence_date date, document text, reason text
--                 [, rail_silent boolean]) -> text
--   Ends what the machine parked, what it set aside with an unknown outcome, or
--   what contradicts itself, with a person's evidence: appends the true outcome as
--   DISPATCHED or FAILED, with the actor. A FAILED one keeps its dead letter, to be
--   replayed or closed. "Not executed" of what was CANCELLED, or is FAILED, is no news
--   and appends nothing; a cancelled payment is done with.
--
--   What should wait in pending, and does not because its row was lost there, is ended
--   by evidence as well. Proof of execution ends more: what waits in pending, because after a failover that
--   forgot its send that is all that keeps it from being sent again, and what is FAILED
--   or CANCELLED, because the rail may have been wrong, or a restore have forgotten the
--   replay that was executed; the caller would pay it once more.
--
--   "Not executed" needs the rail's word and the evidence where the rail can be
--   asked (require_rails_word); rail_silent goes without, and is in the row and the log.
--   It waits until a component has looked at this start of the server: until then no row
--   says of which sends the evidence would have to speak. While lanes are suspended one does.
--
--   Evidence is no older than what it is said of: the instruction where it was executed,
--   its last send where it was not, each by the date of where on Earth that was earliest.
--   A reference by which another payment of the rail was executed is no evidence of this
--   one, unless a row of this one has it. Blanks around it are no part of it.
-- returns: the state after it.
-- errors:  RH002 without reason, document or (if executed) rail reference, with
--          one that is too long, or with a date to come; RH010 unknown instruction;
--          RH020 it can't be resolved, with the sentence that says why,
--          55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_outbox_pending, payment_outbox_attempts, and what sends_of,
--          require_rails_word and open_dead_letters read.
-- writes:  payment_outbox_attempts, payment_outbox_pending, payment_dead_letters, payment_outbox_contradictions,
--          payment_operator_log.
-- locks:   the keys row, then the letter, then the pending row, then where it was executed an advisory lock on the
--          rail's reference, so that two payments do not get one.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.resolve_payment(
  outbox_id uuid, executed boolean, rail_reference text, evidence_date date, document text, reason text,
  rail_silent boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter  {cell}.payment_dead_letters;
  letter_open boolean;
  pending {cell}.payment_outbox_pending;
  put_back text;
  aside   boolean := false;
  waits   boolean := false;
  out_asked boolean := false; -- it was put out for an inquiry, and is not claimed yet
  silent  boolean := false;
  against integer; -- the row by which the rail says otherwise: that it was executed, or as what
  lost    boolean; -- it should wait in pending, and nothing does
  last    {cell}.payment_outbox_attempts;
  o       {cell}.outbox_outcome;
  verdict text;
  number  integer;
  before  integer;
  reference text COLLATE "C" := btrim(resolve_payment.rail_reference);
  on_rail text COLLATE "C";
  since   timestamptz; -- what the evidence can't be older than
  forgot  timestamptz; -- until when sends of it may have begun that a restore forgot
  other   uuid; -- the payment that has the reference already
BEGIN
  PERFORM {cell}.require_reason(resolve_payment.reason);
  IF resolve_payment.executed IS NULL OR coalesce(btrim(resolve_payment.document), '') = ''
    OR resolve_payment.evidence_date IS NULL OR resolve_payment.evidence_date > current_date + 1
    OR resolve_payment.executed AND coalesce(btrim(resolve_payment.rail_reference), '') = ''
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'evidence is incomplete: it needs executed or not, the date of the evidence, the document, and the rail''s reference if executed',
      HINT = 'The document says where the evidence is: a statement, a ticket, a letter.';
  END IF;
  IF octet_length(resolve_payment.rail_reference) > 256 OR octet_length(resolve_payment.document) > 500 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a rail reference has at most 256 bytes, a document at most 500',
      HINT = 'Name the document, do not quote it.';
  END IF;
  PERFORM {cell}.lock_payment(resolve_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = resolve_payment.outbox_id FOR UPDATE;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = resolve_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  -- By one snapshot: a claim takes the row in the statement that appends.
  lost := EXISTS (
    SELECT FROM (
      SELECT a.state FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) l
    WHERE l.state IN ({waiting_states})
      AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id));
  verdict := CASE
    WHEN resolve_payment.executed THEN 'DISPATCHED'
    WHEN last.state = 'CANCELLED' THEN 'CANCELLED'
    ELSE 'FAILED' END;
  SELECT p.* INTO pending FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id FOR UPDATE;
  IF FOUND THEN
    put_back := {cell}.put_back_after(resolve_payment.outbox_id);
    -- An older copy of a row says nothing of what is unknown.
    aside := letter.reason = 'UNCLAIMABLE' AND pending.next_attempt_at = 'infinity'
      AND CASE WHEN put_back IS NULL THEN pending.outcome_unknown
        ELSE put_back IN ({waiting_states}, 'LATE_OUTCOME') END;
    out_asked := put_back IS NULL AND {cell}.operator_asked(resolve_payment.outbox_id, last.attempt_no + 1);
    waits := resolve_payment.executed AND coalesce(last.state NOT IN ({claim_states}, 'DISPATCHED'), true);
  END IF;
  letter_open := coalesce(letter.status NOT IN ({closed_letters}), false);
  IF NOT coalesce(
    waits OR lost
    OR resolve_payment.executed AND last.state IN ({unpaid_states})
    OR letter_open AND (aside OR out_asked OR last.state = 'PARKED')
    OR letter_open AND letter.reason = 'CONFLICT' AND last.state IN ({ended_states}), false)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: nothing about it is left to be resolved',
        coalesce({cell}.payment_outbox_state(resolve_payment.outbox_id), 'gone from the archive')),
      HINT = 'Resolve is for what waits for a person with an unknown outcome, for conflicts, and with proof of execution for what waits to be sent, is FAILED or CANCELLED. Not executed, FAILED and EXPIRED are replayed or closed, UNCLAIMABLE of which nothing was sent is replayed or cancelled.';
  END IF;

  SELECT a.attempt_no INTO before FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = resolve_payment.outbox_id AND a.state = 'DISPATCHED';
  IF resolve_payment.executed AND before < last.attempt_no THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('row %s says DISPATCHED and row %s took it back: an instruction has one DISPATCHED row and gets no second', before, last.attempt_no),
      HINT = 'Escalate its dead letter, and neither close nor replay it, so that it is not paid again: the books are put right outside of Railhead.';
  END IF;

  since := {cell}.uuidv7_time(resolve_payment.outbox_id);
  IF NOT resolve_payment.executed THEN
    -- One that a backup brought along is of another start, and says nothing of this one.
    IF NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s
      WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time() AND s.timeline = {cell}.server_timeline())
    THEN
      PERFORM {cell}.require_settled_server('evidence that a payment was not executed');
    END IF;
    forgot := {cell}.may_be_forgotten_until(resolve_payment.outbox_id);
    IF forgot > clock_timestamp() THEN -- by a clock that was ahead: no evidence is of then
      forgot := clock_timestamp();
    END IF;
    since := (SELECT greatest(since, forgot, max(s.claimed_at)) FROM {cell}.sends_of(resolve_payment.outbox_id) s);
  END IF;
  IF resolve_payment.evidence_date < ((since - interval '12 hours') AT TIME ZONE 'UTC')::date THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the evidence is of %s, and %s %s: it can''t speak of that', resolve_payment.evidence_date,
        CASE WHEN resolve_payment.executed THEN 'the payment was enqueued at' WHEN since = forgot THEN 'a send that the database has forgotten may have begun as late as'
          ELSE 'the last send began at' END, date_trunc('second', since)),
      HINT = 'The date is that of the statement or the answer, not of the order. Find out at the rail what became of the payment since.';
  END IF;
  IF resolve_payment.executed THEN
    on_rail := coalesce(last.rail_type, pending.rail_type,
      (SELECT k.rail_type FROM {cell}.payment_outbox_attempts k WHERE k.outbox_id = resolve_payment.outbox_id LIMIT 1));
    -- Two operators with one statement: the second sees what the first has written.
    PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.reference ' || on_rail || ' ' || reference, 0));
    SELECT a.outbox_id INTO other FROM {cell}.payment_outbox_attempts a
    WHERE a.rail_reference = reference AND a.outbox_id <> resolve_payment.outbox_id AND a.rail_type = on_rail
      AND (a.state = 'DISPATCHED' OR a.result = 'EXECUTED')
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts own
        WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference)
    LIMIT 1;
    IF other IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the rail''s reference is that of %s, which was executed: it is no evidence of %s', other, resolve_payment.outbox_id),
        HINT = 'Look at the statement again. If the rail gives one reference to several payments, write it with what tells them apart there: REFERENCE/LINE.';
    END IF;
  END IF;

  IF NOT resolve_payment.executed THEN
    silent := {cell}.require_rails_word(resolve_payment.outbox_id, resolve_payment.rail_silent);
    against := (
      SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND (a.result = 'EXECUTED' OR a.state = 'DISPATCHED')
        AND a.error_code IS DISTINCT FROM 'RESOLVED');
  END IF;

  IF resolve_payment.executed THEN
    against := (
      SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND (a.result = 'EXECUTED' OR a.state = 'DISPATCHED')
        AND a.error_code IS DISTINCT FROM 'RESOLVED' AND a.rail_reference <> reference AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts own
          WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference));
  END IF;
  IF last.state::text IS DISTINCT FROM verdict THEN
    SELECT coalesce(max(a.attempt_no), 0) + 1 INTO number FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = resolve_payment.outbox_id;
    o.outbox_id := resolve_payment.outbox_id;
    o.error_code := 'RESOLVED';
    o.error_message := format('%s%s (%s, %s)', CASE
      WHEN against IS NOT NULL THEN format('against the rail''s word (row %s): ', against)
      WHEN silent THEN 'without the rail''s word: ' END,
      resolve_payment.reason, resolve_payment.document, resolve_payment.evidence_date);
    -- The column holds 2000 bytes, and a character has at most 4. The log has all of it.
    IF octet_length(o.error_message) > 2000 THEN
      o.error_message := left(o.error_message, 500);
    END IF;
    PERFORM {cell}.append_outbox_row(o, {cell}.uuidv7(), number, verdict, NULL, false,
      CASE WHEN resolve_payment.executed THEN 'EXECUTED' ELSE 'REFUSED' END, reference);
  END IF;
  IF aside OR waits OR out_asked OR put_back IS NOT NULL THEN
    DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id;
  END IF;
  IF verdict <> 'FAILED' THEN
    PERFORM {cell}.close_letter(resolve_payment.outbox_id, 'resolved', resolve_payment.reason);
  ELSE
    PERFORM {cell}.open_dead_letters(ARRAY[resolve_payment.outbox_id], ARRAY['FAILED'], ARRAY['RESOLVED']);
    UPDATE {cell}.payment_dead_letters d
    SET reason = 'FAILED', error_code = 'RESOLVED', status = 'acknowledged', note = resolve_payment.reason,
      actor = session_user, updated_at = clock_timestamp()
    WHERE d.outbox_id = resolve_payment.outbox_id;
  END IF;
  PERFORM {cell}.log_operator_act('RESOLVE', {cell}.instruction_of(resolve_payment.outbox_id),
    resolve_payment.outbox_id, resolve_payment.reason,
    jsonb_build_object('executed', resolve_payment.executed, 'rail_reference', reference,
      'evidence_date', resolve_payment.evidence_date, 'document', resolve_payment.document, 'rail_silent', silent, 'against_row', against,
      'letter', letter.reason, 'was', last.state));
  RETURN verdict;
END
$$;
