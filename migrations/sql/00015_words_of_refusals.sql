-- Migration 15, words of refusals. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function accept_timeline
CREATE OR REPLACE FUNCTION {cell}.accept_timeline(reason text, since timestamptz DEFAULT NULL)
RETURNS TABLE (system_identifier text, timeline bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
AS $$
DECLARE
  suspended {cell}.payment_outbox_suspensions; -- the open one
  shape     CONSTANT text := 'YYYY-MM-DD"T"HH24:MI:SS"Z"';
  what      text; -- what has to be compared
BEGIN
  PERFORM {cell}.require_reason(accept_timeline.reason);
  SELECT s.system_identifier::text INTO accept_timeline.system_identifier FROM pg_control_system() s;
  accept_timeline.timeline := {cell}.server_timeline();
  SELECT s.* INTO suspended FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL FOR UPDATE;
  what := CASE WHEN suspended.known_until > '-infinity' THEN 'was sent since ' || to_char(suspended.known_until, shape)
    ELSE 'was ever sent' END;
  IF suspended.suspension_id IS NULL THEN
    IF since IS NOT NULL AND NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s WHERE date_trunc('second', s.opened_at) = date_trunc('second',
        since))
    THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('no suspension is open, and none was opened at %s', to_char(since, shape)),
        HINT = 'See opened_at of payment_outbox_suspensions. If the server has forgotten it, a relayer finds that out '
          'within seconds.';
    END IF;
    IF EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.kind = 'relayer') AND NOT {cell}.server_is_settled() THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'the server was started or promoted, and no relayer has confirmed since that nothing is missing: '
          'what it may have forgotten is not known yet',
        HINT = 'Start a relayer, or wait until one has compared the server with what it remembers. If lanes are '
          'suspended then, compare with the rails what was sent since known_until of payment_outbox_suspensions, '
          'and repeat this.';
    END IF;
  ELSIF (suspended.system_identifier, suspended.timeline, suspended.server_started_at)
    IS DISTINCT FROM (accept_timeline.system_identifier, accept_timeline.timeline, pg_postmaster_start_time())
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the server was started or promoted after the suspension was opened, and no relayer has checked it '
        'since: it may have forgotten more than you have compared',
      HINT = 'Start a relayer, or wait some seconds until one has checked the server. Then compare with the rails '
        'what was sent since known_until of payment_outbox_suspensions, and repeat this.';
  ELSIF since IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('lanes have been suspended since %s: confirm that you have compared with the rails for this suspension', to_char(suspended.opened_at, shape)),
      HINT = format('Compare with the rails what %s, then repeat this with --since %s.', what,
        to_char(suspended.opened_at, shape));
  ELSIF date_trunc('second', suspended.opened_at) <> date_trunc('second', since) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('lanes have been suspended since %s, but you have compared the suspension of %s: the server may have gone back again since, and forgotten the acts by which you ended payments',
        to_char(suspended.opened_at, shape), to_char(since, shape)),
      HINT = format('Compare with the rails again what %s, then repeat this with --since %s.', what,
        to_char(suspended.opened_at, shape));
  END IF;
  INSERT INTO {cell}.payment_accepted_timelines (system_identifier, timeline, reason)
  VALUES (accept_timeline.system_identifier, accept_timeline.timeline, accept_timeline.reason)
  ON CONFLICT DO NOTHING;
  UPDATE {cell}.payment_outbox_suspensions s
  SET accepted_at = clock_timestamp(), accepted_by = session_user, reason = accept_timeline.reason
  WHERE s.suspension_id = suspended.suspension_id;
  INSERT INTO {cell}.payment_operator_log (act, subject, reason, detail)
  VALUES ('ACCEPT_TIMELINE', format('%s/%s', accept_timeline.system_identifier, accept_timeline.timeline),
    accept_timeline.reason,
    jsonb_strip_nulls(jsonb_build_object('suspension_id', suspended.suspension_id)));
  RETURN NEXT;
END
$$;
-- end of accept_timeline

-- function require_rails_word
CREATE OR REPLACE FUNCTION {cell}.require_rails_word(outbox_id uuid, rail_silent boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  last    {cell}.payment_outbox_attempts;
  asked   {cell}.payment_outbox_attempts;
  profile jsonb;
  letter  text;
  sends   record;
  told    record; -- reported sends that a restore forgot
  due_at  timestamptz; -- the due time of the pending row
BEGIN
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT p.profile INTO profile
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  WHERE r.rail_type = coalesce(
    (SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no LIMIT 1),
    (SELECT w.rail_type FROM {cell}.payment_outbox_pending w WHERE w.outbox_id = $1));
  IF coalesce((profile #>> '{inquiry,max}')::integer, 0) = 0 THEN
    RETURN false;
  END IF;
  SELECT d.reason INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = $1;
  SELECT s.* INTO sends FROM {cell}.known_sends($1) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends($1) f;
  -- If nothing was sent, or every send was refused, there is nothing to ask, unless the rail has
  -- reported otherwise.
  IF (sends.n + told.n = 0 OR {cell}.payment_certainty($1, {cell}.server_is_settled()) = 'REFUSED')
    AND last.outcome_unknown IS NOT TRUE
    AND letter IS DISTINCT FROM 'CONFLICT' AND NOT {cell}.send_may_be_forgotten($1)
  THEN
    RETURN false;
  END IF;

  -- The latest answer. A reported execution is not superseded by a weaker answer, and counts also
  -- if it was reported for a claim that a restore forgot.
  SELECT a.* INTO asked
  FROM {cell}.payment_outbox_attempts a
  LEFT JOIN {cell}.payment_outbox_attempts q
    ON q.outbox_id = a.outbox_id AND q.attempt_no = a.answers_attempt_no AND q.state = 'INQUIRING'
  WHERE a.outbox_id = $1 AND a.completed_at > clock_timestamp() - interval '15 minutes'
    AND (q.outbox_id IS NOT NULL OR a.answers_attempt_no IS NULL AND a.claimed_at IS NOT NULL AND a.result = 'EXECUTED')
  ORDER BY a.result IS NOT DISTINCT FROM 'EXECUTED' DESC, a.attempt_no DESC
  LIMIT 1;
  IF asked.result = 'EXECUTED' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the rail reported that it executed the payment (row %s): it can''t be resolved as not executed',
        asked.attempt_no),
      HINT = 'Compare with the rail''s statement. If it has the payment, resolve it as executed, with its reference.';
  END IF;
  IF {cell}.inquiry_said_not_executed($1, profile, sends.first_at, sends.last_at) THEN
    RETURN false;
  END IF;
  IF rail_silent IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = CASE WHEN asked.attempt_no IS NULL
        THEN 'the rail answers inquiries and was not asked within 15 minutes: the payment can''t be resolved as not '
          'executed without its answer'
        WHEN asked.result = 'NOT_SENT'
        THEN format('the inquiry did not reach the rail (row %s, NOT_SENT): it does not prove that the payment was not executed', asked.attempt_no)
        ELSE format('the rail''s answer to an inquiry (row %s, %s) does not prove that the payment was not executed',
          asked.attempt_no, coalesce(asked.result, 'no result')) END,
      HINT = 'Ask it: railhead payment inquire. If no answer proves anything and your evidence is sufficient without '
        'one, use --rail-silent, which is recorded.';
  END IF;
  SELECT p.next_attempt_at INTO due_at FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1;
  IF asked.attempt_no IS NULL AND letter IN ('OUTCOME_UNKNOWN', 'TAMPERED')
    AND {cell}.payment_certainty($1, {cell}.server_is_settled()) = 'OUTCOME_UNKNOWN'
    AND due_at IS DISTINCT FROM 'infinity' -- which is quarantined
    AND (last.state = 'PARKED' OR {cell}.operator_asked($1, last.attempt_no + 1))
    AND {cell}.pause_of(last.rail_type, (SELECT k.participant_id FROM {cell}.payment_outbox_keys k
      WHERE k.outbox_id = $1)) IS NULL
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the rail answers inquiries and was not asked within 15 minutes: whether it would answer is not known',
      HINT = CASE WHEN last.state = 'PARKED' THEN 'Ask it: railhead payment inquire.'
        WHEN due_at > clock_timestamp() + interval '15 minutes'
          THEN 'Its inquiry was postponed: railhead payment send-now makes it due.'
        ELSE 'Its inquiry is pending or in flight: check again, with railhead payment show and railhead status.' END;
  END IF;
  RETURN true;
END
$$;
-- end of require_rails_word

-- function reschedule_payment
CREATE OR REPLACE FUNCTION {cell}.reschedule_payment(
  outbox_id uuid, due_at timestamptz, reason text, OUT was_due_at timestamptz, OUT is_due_at timestamptz) RETURNS record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  waiting {cell}.payment_outbox_pending;
  profile jsonb;
  moment  timestamptz := clock_timestamp();
BEGIN
  PERFORM {cell}.require_reason(reschedule_payment.reason);
  IF reschedule_payment.due_at > moment + interval '366 days' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a due time is at most 366 days ahead',
      HINT = 'To delay instructions for longer, pause their participant or rail.';
  END IF;
  PERFORM {cell}.lock_payment(reschedule_payment.outbox_id);
  SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p
    WHERE p.outbox_id = reschedule_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only a pending instruction has a due time',
        coalesce({cell}.payment_outbox_state(reschedule_payment.outbox_id), 'gone from the archive')),
      HINT = 'A claimed instruction may be on its way to the rail. Use payment inquire for a parked one, and dead-letter replay for '
        'one that has failed.';
  END IF;
  IF {cell}.put_back_after(reschedule_payment.outbox_id) IS NOT NULL OR waiting.next_attempt_at = 'infinity' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction could not be claimed and is quarantined: a due time does not change that',
      HINT = 'Correct the cause that its dead letter names, then replay it.';
  END IF;

  moment := greatest(reschedule_payment.due_at, moment);
  IF waiting.next_action = 'INQUIRE' THEN
    SELECT p.profile INTO profile
    FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    WHERE r.rail_type = waiting.rail_type;
    IF coalesce((profile #>> '{inquiry,max}')::integer, 0) = 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('rail %s can''t be asked: the instruction waits for the rail''s callback', waiting.rail_type),
        HINT = 'It is parked at its callback_deadline. An answer of the rail before then ends it.';
    END IF;
    moment := greatest(moment, waiting.last_sent_at + coalesce((profile #>> '{inquiry,not_before}')::interval,
      interval '0'));
  END IF;
  IF waiting.next_action = 'SEND' AND moment >= waiting.expires_at THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('it expires at %s and would not be sent', waiting.expires_at),
      HINT = CASE WHEN waiting.expires_at > clock_timestamp() THEN 'Choose an earlier time.'
        ELSE 'The reaper ends it.' END;
  END IF;

  UPDATE {cell}.payment_outbox_pending p SET next_attempt_at = moment WHERE p.outbox_id = reschedule_payment.outbox_id;
  PERFORM {cell}.log_operator_act(CASE WHEN reschedule_payment.due_at IS NULL THEN 'SEND_NOW' ELSE 'RESCHEDULE' END,
    {cell}.instruction_of(waiting.outbox_id), waiting.outbox_id, reschedule_payment.reason,
    jsonb_build_object('from', waiting.next_attempt_at, 'to', moment, 'rows', waiting.attempt_count));
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  was_due_at := waiting.next_attempt_at;
  is_due_at := moment;
END
$$;
-- end of reschedule_payment

-- function resolve_payment
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
  out_asked boolean := false; -- it is pending for an inquiry that an operator asked for
  silent  boolean := false;
  against integer; -- the row in which the rail reports otherwise: an execution, or another reference
  lost    boolean; -- it should be pending, and has no pending row
  last    {cell}.payment_outbox_attempts;
  o       {cell}.outbox_outcome;
  verdict text;
  number  integer;
  before  integer;
  reference text COLLATE "C" := btrim(resolve_payment.rail_reference);
  on_rail text COLLATE "C";
  since   timestamptz; -- the time than which the evidence can't be older
  forgot  timestamptz; -- the time until which forgotten sends may have begun
  other   uuid; -- the payment that already has the reference
BEGIN
  PERFORM {cell}.require_reason(resolve_payment.reason);
  IF resolve_payment.executed IS NULL OR coalesce(btrim(resolve_payment.document), '') = ''
    OR resolve_payment.evidence_date IS NULL OR resolve_payment.evidence_date > current_date + 1
    OR resolve_payment.executed AND coalesce(btrim(resolve_payment.rail_reference), '') = ''
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
    WHERE l.state IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED')
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
        ELSE put_back IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED', 'LATE_OUTCOME') END;
    out_asked := put_back IS NULL AND {cell}.operator_asked(resolve_payment.outbox_id, last.attempt_no + 1);
    waits := resolve_payment.executed AND coalesce(last.state NOT IN ('DISPATCHING', 'INQUIRING', 'DISPATCHED'), true);
  END IF;
  letter_open := coalesce(letter.status NOT IN ('manual_replay', 'resolved'), false);
  IF NOT coalesce(
    waits OR lost
    OR resolve_payment.executed AND last.state IN ('FAILED', 'CANCELLED')
    OR letter_open AND (aside OR out_asked OR last.state = 'PARKED')
    OR letter_open AND letter.reason = 'CONFLICT' AND last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED'), false)
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
    SELECT a.outbox_id INTO other FROM {cell}.payment_outbox_attempts a
    WHERE a.rail_reference = reference AND a.outbox_id <> resolve_payment.outbox_id AND a.rail_type = on_rail
      AND (a.state = 'DISPATCHED' OR a.result = 'EXECUTED')
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts own
        WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference)
    LIMIT 1;
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
        AND a.error_code IS DISTINCT FROM 'RESOLVED' AND a.rail_reference <> reference AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts own
          WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference));
  END IF;
  IF last.state::text IS DISTINCT FROM verdict THEN
    SELECT coalesce(max(a.attempt_no), 0) + 1 INTO number FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id;
    o.outbox_id := resolve_payment.outbox_id;
    o.error_code := 'RESOLVED';
    o.error_message := format('%s%s (%s, %s)', CASE
      WHEN against IS NOT NULL THEN format('against the rail''s word (row %s): ', against)
      WHEN silent THEN 'without the rail''s word: ' END,
      resolve_payment.reason, resolve_payment.document, resolve_payment.evidence_date);
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
      'evidence_date', resolve_payment.evidence_date, 'document', resolve_payment.document, 'rail_silent', silent,
        'against_row', against,
      'letter', letter.reason, 'was', last.state));
  RETURN verdict;
END
$$;
-- end of resolve_payment

-- function triage_dead_letter
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
BEGIN
  PERFORM {cell}.require_reason(triage_dead_letter.reason);
  IF triage_dead_letter.status IS NULL OR triage_dead_letter.status NOT IN ('acknowledged', 'escalated', 'resolved') THEN
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
  IF letter.status IN ('manual_replay', 'resolved') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = format('the dead letter is already closed (%s)', letter.status);
  END IF;
  IF triage_dead_letter.status = 'resolved' THEN
    -- A worker may be about to return the payment to pending; this waits for it.
    PERFORM FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = triage_dead_letter.outbox_id FOR UPDATE;
    waits := FOUND;
    ended := {cell}.put_back_after(triage_dead_letter.outbox_id);
  END IF;
  IF triage_dead_letter.status = 'resolved' AND NOT coalesce(
    CASE WHEN forged THEN NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts s
      WHERE s.outbox_id = triage_dead_letter.outbox_id AND s.state <> 'PARKED'
        AND (s.state <> 'DISPATCHING' OR NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts answer
          WHERE answer.outbox_id = s.outbox_id AND answer.answers_attempt_no = s.attempt_no
            AND answer.state = 'PARKED' AND answer.result = 'TAMPERED')))
    ELSE CASE letter.reason
      WHEN 'UNCLAIMABLE' THEN ended IN ('DISPATCHED', 'FAILED', 'CANCELLED', 'DISPATCHING', 'INQUIRING')
        -- The row was removed from pending before its first claim.
        OR NOT waits AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = triage_dead_letter.outbox_id)
      WHEN 'TAMPERED' THEN ended = 'DISPATCHED'
      ELSE letter.reason IN ('FAILED', 'EXPIRED') END END, false)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('a dead letter of reason %s can''t be closed by this act', letter.reason),
      HINT = CASE WHEN forged
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
-- end of triage_dead_letter

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 15, serves 13'
$$;
-- end of schema_version
