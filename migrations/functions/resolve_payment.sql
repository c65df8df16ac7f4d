-- resolve_payment(outbox_id uuid, executed boolean, rail_reference text, evidence_date date, document text, reason text
--                 [, rail_silent boolean]) -> text
--   Ends, with an operator's evidence, an instruction that was parked, that was quarantined with an
--   unknown outcome, or whose evidence is contradictory: appends the true outcome as DISPATCHED or
--   FAILED, with the actor. A FAILED instruction keeps its dead letter, to be replayed or closed.
--   "Not executed" adds nothing to a CANCELLED or FAILED instruction and appends no row; a
--   cancelled payment needs no further act.
--
--   Evidence also ends an instruction that should be pending and whose pending row was lost. Proof
--   of execution ends more. It ends a pending instruction, because after a failover that forgot its
--   send nothing else prevents another send. It ends a FAILED or CANCELLED instruction, because the
--   rail may have been wrong, or a restore may have forgotten the replay that was executed, and the
--   caller would pay again.
--
--   "Not executed" requires both the rail's answer and the evidence if the rail answers inquiries
--   (require_rails_word). rail_silent waives the answer, and is recorded in the row and the log. It
--   is refused until a component has compared this start of the server with its memory: until then,
--   no row shows which sends the evidence would have to cover. While lanes are suspended, the
--   suspension shows it.
--
--   Evidence must not be older than its subject: the instruction if it was executed, its last send
--   if it was not, each by the earliest date anywhere on Earth. A reference under which the rail
--   executed another payment, also one of a month that has left the archive, or by which an operator resolved another one
--   as executed, is not evidence of this one, unless the rail gave it for this one in a row that no operator wrote. A reference is stored and compared as a
--   reader sees it (clean_reference), as that of a rail's answer is.
-- returns: the state after the act.
-- errors:  RH002 without a reason, a document or (if executed) a rail reference, or one of which nothing is
--          seen, if one of them is too long, with a reference that can't be stored (clean_reference), or with a
--          future date; RH010 unknown instruction;
--          RH020 it can't be resolved, with the reason;
--          55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_outbox_pending, payment_outbox_attempts, payment_retired_references,
--          payment_operator_log, and what unsettled_contradiction, sends_of,
--          require_rails_word and open_dead_letters read.
-- writes:  payment_outbox_attempts, payment_outbox_pending, payment_dead_letters, payment_order_marks,
--          payment_operator_log.
-- locks:   the keys row, then the letter, then the pending row; if it was executed, then an advisory lock on the
--          rail's reference, so that two payments do not get the same one.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.resolve_payment(
  outbox_id uuid, executed boolean, rail_reference text, evidence_date date, document text, reason text,
  rail_silent boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  letter  {cell}.payment_dead_letters;
  letter_open boolean;
  pending {cell}.payment_outbox_pending;
  put_back text;
  aside   boolean := false;
  waits   boolean := false;
  out_asked boolean := false; -- it is pending for an inquiry that an operator asked for
  silent  boolean := false;
  against integer; -- the row in which the rail reports otherwise: an execution, or another reference
  lost    boolean; -- it should be pending, and has no pending row
  last    {cell}.payment_outbox_attempts;
  o       {cell}.outbox_outcome;
  verdict text;
  number  integer;
  before  integer;
  reference text COLLATE "C" := {cell}.clean_reference(resolve_payment.rail_reference);
  given   text COLLATE "C" := btrim(resolve_payment.rail_reference); -- as builds of before migration 63 stored it
  document text;
  on_rail text COLLATE "C";
  since   timestamptz; -- the time than which the evidence can't be older
  forgot  timestamptz; -- the time until which forgotten sends may have begun
  other   uuid; -- the payment that already has the reference
BEGIN
  PERFORM {cell}.require_reason(resolve_payment.reason);
  -- Somewhere on Earth it may be the next day already.
  IF resolve_payment.evidence_date > current_date + 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('the day of the evidence, %s, is in the future', resolve_payment.evidence_date),
      HINT = 'Give the day that is on the document.';
  END IF;
  IF resolve_payment.executed IS NULL OR coalesce(resolve_payment.document, '') COLLATE "C" !~ E'[^ {unseen}]'
    OR resolve_payment.evidence_date IS NULL
    OR resolve_payment.executed AND coalesce(resolve_payment.rail_reference, '') COLLATE "C" !~ E'[^ {unseen}]'
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'evidence is incomplete: it needs executed or not, its date, the document, and the rail''s reference '
        'if executed',
      HINT = 'The document names the evidence: a statement, a ticket, a letter.';
  END IF;
  IF octet_length(resolve_payment.rail_reference) > 256 OR octet_length(resolve_payment.document) > 500 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a rail reference has at most 256 bytes, a document at most 500',
      HINT = 'Name the document, do not quote it.';
  END IF;
  document := substring(resolve_payment.document COLLATE "C" FROM E'^[{blanks}]*([^{blanks}](?:.*[^{blanks}])?)');
  IF reference IS NULL AND resolve_payment.rail_reference COLLATE "C" ~ E'[^ {unseen}]' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'the rail''s reference has a control character, such as a tab or a line end, within it',
      HINT = 'Give the reference as the document shows it, on one line.';
  END IF;
  PERFORM {cell}.lock_payment(resolve_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = resolve_payment.outbox_id FOR UPDATE;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = resolve_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  -- Both are read by one snapshot: a claim deletes the pending row in the statement that appends
  -- its row.
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
    -- outcome_unknown of an older copy of the row is not reliable.
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
    OR letter_open AND last.state IN ({ended_states})
      AND (letter.reason = 'CONFLICT' OR {cell}.unsettled_contradiction(resolve_payment.outbox_id) IS NOT NULL), false)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: it can''t be resolved like this now',
        coalesce({cell}.payment_outbox_state(resolve_payment.outbox_id), 'gone from the archive')),
      HINT = 'Resolve a dead letter with an unknown outcome or a conflict, or, with proof of execution, an '
        'instruction that is pending, FAILED or CANCELLED. If it was not executed, replay or close FAILED and '
        'EXPIRED, and replay or cancel UNCLAIMABLE of which nothing was sent.';
  END IF;

  SELECT a.attempt_no INTO before FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = resolve_payment.outbox_id AND a.state = 'DISPATCHED';
  IF resolve_payment.executed AND before < last.attempt_no THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('row %s is DISPATCHED and row %s revoked it: an instruction has at most one DISPATCHED row',
        before, last.attempt_no),
      HINT = 'Escalate its dead letter, and neither close nor replay it, so that it is not paid again. Correct the '
        'books outside Railhead.';
  END IF;

  since := {cell}.uuidv7_time(resolve_payment.outbox_id);
  IF NOT resolve_payment.executed THEN
    -- A suspension that was restored from a backup is of another start, and does not concern this
    -- one.
    IF NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s
      WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time()
        AND s.timeline = {cell}.server_timeline())
    THEN
      PERFORM {cell}.require_settled_server('evidence that a payment was not executed');
    END IF;
    forgot := {cell}.may_be_forgotten_until(resolve_payment.outbox_id);
    IF forgot > clock_timestamp() THEN -- a clock was ahead: no evidence has a future date
      forgot := clock_timestamp();
    END IF;
    since := (SELECT greatest(since, forgot, max(s.claimed_at)) FROM {cell}.sends_of(resolve_payment.outbox_id) s);
  END IF;
  IF resolve_payment.evidence_date < ((since - interval '12 hours') AT TIME ZONE 'UTC')::date THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the evidence is dated %s, and %s %s: it can''t cover that', resolve_payment.evidence_date,
        CASE WHEN resolve_payment.executed THEN 'the payment was enqueued at' WHEN since = forgot
          THEN 'a send that the database has forgotten may have begun as late as'
          ELSE 'the last send began at' END, date_trunc('second', since)),
      HINT = 'Give the date of the statement or the answer, not of the order. Find out from the rail what has become '
        'of the payment since.';
  END IF;
  IF resolve_payment.executed THEN
    on_rail := coalesce(last.rail_type, pending.rail_type,
      (SELECT k.rail_type FROM {cell}.payment_outbox_attempts k WHERE k.outbox_id = resolve_payment.outbox_id LIMIT 1));
    -- If two operators use one statement, the second sees the row of the first.
    PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.reference ' || on_rail || ' ' || reference, 0));
    IF NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts own
      WHERE own.outbox_id = resolve_payment.outbox_id AND {cell}.clean_reference(own.rail_reference) = reference
        AND own.error_code IS DISTINCT FROM 'RESOLVED')
    THEN
      SELECT a.outbox_id INTO other FROM {cell}.payment_outbox_attempts a
      WHERE a.rail_reference IN (reference, given) AND a.outbox_id <> resolve_payment.outbox_id AND a.rail_type = on_rail
        AND (a.state = 'DISPATCHED' OR a.result = 'EXECUTED')
      LIMIT 1;
      -- After the archive: a month that leaves it meanwhile has its references kept by then.
      IF other IS NULL THEN
        SELECT r.outbox_id INTO other FROM {cell}.payment_retired_references r
        WHERE r.rail_reference = reference AND r.outbox_id <> resolve_payment.outbox_id AND r.rail_type = on_rail
        LIMIT 1;
      END IF;
      -- Evidence that says the same as the state of its payment has no row, and is in the log alone.
      IF other IS NULL THEN
        SELECT l.outbox_id INTO other FROM {cell}.payment_operator_log l
        WHERE l.act = 'RESOLVE' AND (l.detail ->> 'rail_reference') COLLATE "C" IN (reference, given)
          AND l.detail ->> 'executed' = 'true' AND l.outbox_id <> resolve_payment.outbox_id
          -- The rail of a payment whose month and dead letter are gone is not known: it counts as the same one.
          AND coalesce(
            (SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = l.outbox_id LIMIT 1),
            (SELECT d.rail_type FROM {cell}.payment_dead_letters d WHERE d.outbox_id = l.outbox_id), on_rail) = on_rail
        LIMIT 1;
      END IF;
    END IF;
    IF other IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the rail''s reference is that of %s, which was executed: it is not evidence of %s', other,
          resolve_payment.outbox_id),
        HINT = 'Check the statement. If the rail gives one reference to several payments, add what distinguishes them '
          'there: REFERENCE/LINE.';
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
        AND a.error_code IS DISTINCT FROM 'RESOLVED' AND {cell}.clean_reference(a.rail_reference) <> reference
        AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts own
          WHERE own.outbox_id = resolve_payment.outbox_id AND {cell}.clean_reference(own.rail_reference) = reference
            AND own.error_code IS DISTINCT FROM 'RESOLVED'));
  END IF;
  IF last.state::text IS DISTINCT FROM verdict THEN
    SELECT coalesce(max(a.attempt_no), 0) + 1 INTO number FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id;
    o.outbox_id := resolve_payment.outbox_id;
    o.error_code := 'RESOLVED';
    o.error_message := format('%s%s (%s, %s)', CASE
      WHEN against IS NOT NULL THEN format('against the rail''s word (row %s): ', against)
      WHEN silent THEN 'without the rail''s word: ' END,
      resolve_payment.reason, document, resolve_payment.evidence_date);
    -- The column holds 2000 bytes, and a character has at most 4. The log has the full text.
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
      'evidence_date', resolve_payment.evidence_date, 'document', document, 'rail_silent', silent,
        'against_row', against,
      'letter', letter.reason, 'was', last.state));
  RETURN verdict;
END
$$;
