-- Migration 53, acts refused and deadlines. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function replay_payment
CREATE OR REPLACE FUNCTION {cell}.replay_payment(outbox_id uuid, reason text, expires_at timestamptz DEFAULT NULL)
  RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  letter     {cell}.payment_dead_letters;
  last       {cell}.payment_outbox_attempts;
  whole      record;
  profile    jsonb;
  version    integer; -- the version of the profile
  sends      record;
  told       record; -- reported sends that a restore forgot
  doubted    boolean; -- some send may still be in progress
  key_window interval; -- the shortest one
  known_for interval; -- the longest key window
  keyed      boolean; -- the rail keeps the key of each send
  paused     text;
  unpaid     boolean; -- it has ended, and was certainly not made
  anew       text; -- what has to be done before it is paid as another instruction
  sent_under jsonb;
  number     integer;
BEGIN
  PERFORM {cell}.require_reason(replay_payment.reason);
  PERFORM {cell}.require_settled_server('a replay');
  IF replay_payment.expires_at <= clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH006', MESSAGE = 'expires_at is already past',
      HINT = 'Give a later time.';
  END IF;
  -- RFC 3339, in which it is shown and sent, has no later year.
  IF replay_payment.expires_at >= '10000-01-01 00:00:00+00' AND replay_payment.expires_at <> 'infinity' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'expires_at must be a moment before the year 10000 in UTC',
      HINT = 'For a payment that never expires: --never-expires.';
  END IF;
  PERFORM {cell}.lock_payment(replay_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = replay_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and has no dead letter to replay',
        coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive'));
  END IF;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = replay_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  -- Otherwise another instruction may be a second payment, also after the rail's "no such payment", which allows a re-send
  -- of the same key.
  unpaid := last.state = 'FAILED' AND {cell}.payment_certainty(replay_payment.outbox_id, true) NOT IN ('CONTRADICTED',
    'OUTCOME_UNKNOWN');
  -- While the letter is open, a replay may make the old one too.
  anew := CASE WHEN unpaid
    THEN 'Close its dead letter first; then the participant enqueues the payment again as a new instruction.'
    ELSE 'The payment may have been made. Find out from the rail what became of it, and resolve it with that evidence. '
      'After "not executed" close its dead letter; only then the participant enqueues it again as a new instruction.' END;
  -- The operator who closed it may have asked the participant to pay in another way.
  IF letter.status IN ('manual_replay', 'resolved') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and its dead letter is already closed (%s)',
        coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive'), letter.status),
      HINT = CASE
        WHEN letter.status = 'manual_replay'
          THEN 'It was replayed already; see what became of it: railhead payment show. It is not enqueued again.'
        WHEN unpaid
          THEN 'The participant enqueues the payment again as a new instruction, if it is still wanted and was not made '
            'in another way.'
        ELSE 'See what became of it: railhead payment show. Only what was certainly not paid is enqueued again.' END;
  END IF;

  IF letter.reason = 'UNCLAIMABLE' THEN
    IF {cell}.put_back_after(replay_payment.outbox_id) IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the instruction is %s and was put back in pending: it can''t be replayed',
          {cell}.put_back_after(replay_payment.outbox_id)),
        HINT = 'Close its dead letter, or resolve it if it may have been paid.';
    END IF;
    UPDATE {cell}.payment_outbox_pending p
    SET next_attempt_at = clock_timestamp(), expires_at = nullif(coalesce(replay_payment.expires_at, p.expires_at),
      'infinity')
    WHERE p.outbox_id = replay_payment.outbox_id
    RETURNING p.attempt_count INTO number;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the instruction is %s and has no row in pending: it can''t be replayed',
          coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive')),
        HINT = 'Find out who removed the row. Find out from the rail what became of the payment, then resolve it with '
          'that evidence.';
    END IF;
    PERFORM {cell}.close_letter(replay_payment.outbox_id, 'manual_replay', replay_payment.reason);
    PERFORM {cell}.note_order_change(replay_payment.outbox_id, letter.rail_type, true);
    PERFORM {cell}.log_operator_act('REPLAY', letter.instruction_id, replay_payment.outbox_id, replay_payment.reason,
      jsonb_strip_nulls(jsonb_build_object('expires_at', replay_payment.expires_at)));
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN number;
  END IF;

  SELECT a.attempt_no, a.participant_id, a.rail_type, a.payload, a.enqueued_at, a.priority, a.expires_at INTO whole
  FROM {cell}.v_outbox_attempts a
  WHERE a.outbox_id = replay_payment.outbox_id AND a.payload IS NOT NULL ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT p.profile, p.version INTO profile, version
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  WHERE r.rail_type = last.rail_type;
  -- The sends that may have reached the rail, whatever their outcome.
  SELECT s.* INTO sends FROM {cell}.known_sends(replay_payment.outbox_id) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends(replay_payment.outbox_id) f;

  IF letter.reason NOT IN ('FAILED', 'EXPIRED') AND NOT (
    letter.reason = 'OUTCOME_UNKNOWN' AND last.state = 'PARKED'
    AND {cell}.inquiry_said_not_executed(replay_payment.outbox_id, profile, sends.first_at, sends.last_at))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('a dead letter of reason %s can''t be replayed: %s', letter.reason,
        CASE letter.reason WHEN 'TAMPERED' THEN 'its payload is not the one that was enqueued'
          ELSE 'the payment may have been made' END),
      HINT = CASE WHEN letter.reason = 'OUTCOME_UNKNOWN'
        AND clock_timestamp() - sends.first_at >= (profile #>> '{inquiry,not_found_until}')::interval
          THEN 'Its first send is older than inquiry.not_found_until of the profile: the rail''s "no such '
            'payment" no longer proves anything. ' ELSE '' END
        || 'Find out from the rail what became of it, then resolve it with that evidence. Only "not executed" may be '
          'replayed after that.';
  END IF;
  IF last.state IS NULL OR last.state NOT IN ('FAILED', 'PARKED') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and can''t be replayed',
        coalesce(last.state::text, 'gone from the archive'));
  END IF;
  IF EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id AND a.state = 'DISPATCHED')
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction was DISPATCHED once, and gets no second DISPATCHED row: it can''t be replayed',
      HINT = anew;
  END IF;
  -- A send that became known after the instruction was FAILED, or was resolved as not executed, has
  -- no answer, unless the rail answered for the whole payment. The rail may also have reported the
  -- execution since.
  IF EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id AND a.attempt_no > last.attempt_no AND a.state = 'LATE_OUTCOME'
      AND (a.result = 'EXECUTED' OR (last.result IS DISTINCT FROM 'REFUSED'
        OR last.error_code IS NOT DISTINCT FROM 'RESOLVED')
        AND (a.result IN ('ACCEPTED', 'UNKNOWN', 'IN_PROGRESS') OR a.outcome_unknown AND NOT last.outcome_unknown)))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('what became known after row %s called it %s contradicts that: the payment may have been made',
        last.attempt_no, last.state),
      HINT = 'Find out from the rail. If it was not made, close the dead letter first; then the participant '
        'enqueues it again as a new instruction.';
  END IF;
  IF whole.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'no row has the payload any more: it can''t be replayed',
      HINT = anew;
  END IF;
  IF {cell}.payment_outbox_fingerprint(whole.participant_id, whole.rail_type, whole.payload) <> (
    SELECT k.fingerprint FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = replay_payment.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the payload is not the one that was enqueued: it can''t be replayed',
      HINT = 'Find out who changed it. ' || anew;
  END IF;
  IF sends.n + told.n > 0 AND coalesce(profile ->> 'id_after_refusal', 'NEW') = 'NEW' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('it may have been sent, and rail %s requires a new id for another try, and a replay keeps the old one',
        last.rail_type),
      HINT = anew;
  END IF;

  -- "No such payment" allows a send, but does not answer the earlier sends. Under the same key the
  -- new send takes their place, but only inside the key window. If the rail remembers no keys, the
  -- operator is responsible.
  doubted := last.state = 'PARKED' AND last.outcome_unknown;
  -- The strictest rule of the profiles under which it was sent applies.
  sent_under := coalesce({cell}.rules_of_sends(replay_payment.outbox_id), '[]') || profile;
  SELECT min(w), max(w) INTO key_window, known_for
  FROM (SELECT coalesce((r ->> 'key_window')::interval, '0s') AS w FROM jsonb_array_elements(sent_under) r) r;
  SELECT coalesce(bool_and(coalesce(r ->> 'resend_on_unknown', 'NEVER') = 'SAME_KEY'), false) INTO keyed
  FROM jsonb_array_elements(sent_under) r;
  IF doubted AND keyed
    -- For a send that was made before an acceptance of a timeline, the key may be as old as the
    -- earliest forgotten send (payment.Claim.Weigh).
    AND (
      SELECT f.at <= clock_timestamp() AND f.at > clock_timestamp() - (key_window - least(key_window / 10,
        interval '5 minutes'))
      FROM (SELECT {cell}.key_since(replay_payment.outbox_id, known_for + least(known_for / 10, interval '5 minutes'),
        least(sends.first_at, told.first_at, (
        SELECT min(s.known_until) FROM {cell}.payment_outbox_suspensions s
        WHERE sends.first_at > s.known_until
          AND (s.accepted_at IS NULL OR sends.first_at < s.accepted_at)))) AS at) f) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('its key window is over, or not known: rail %s may no longer remember the key, and pay twice',
        last.rail_type),
      HINT = 'Find out from the rail what became of it, then resolve it with that evidence. Only "not executed" may '
        'be replayed after that.';
  END IF;

  -- The rail's word ages while nothing is claimed, and on such a rail nothing else prevents a second payment.
  IF doubted AND NOT keyed THEN
    paused := {cell}.pause_of(last.rail_type, letter.participant_id);
    IF paused IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('%s: the replay would be sent later, when "no such payment" may no longer be so', paused),
        HINT = 'Resume it, have the rail asked again (railhead payment inquire), then replay the payment.';
    END IF;
  END IF;

  IF replay_payment.expires_at IS NULL AND whole.expires_at <= clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('it had to be sent before %s, which is past', whole.expires_at),
      HINT = 'Ask its participant whether the payment is still wanted. Then give a new expiry (--expires-at TIME), or say that '
        'it has none (--never-expires).';
  END IF;

  -- The pending row of an ended instruction was put back.
  DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = replay_payment.outbox_id;
  SELECT max(a.attempt_no) + 1 INTO number FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, profile_version, error_message, outcome_unknown,
      provisional)
  VALUES ({cell}.uuidv7(), last.outbox_id, last.rail_type, number, 'REPLAYED', clock_timestamp(), version,
    replay_payment.reason, doubted, false);
  INSERT INTO {cell}.payment_outbox_pending
    (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
      headers,
     outcome_unknown, first_sent_at, last_sent_at, render_version)
  SELECT last.outbox_id, whole.participant_id, whole.rail_type, copy.payload, number, clock_timestamp(),
    whole.enqueued_at, whole.priority, nullif(coalesce(replay_payment.expires_at, whole.expires_at), 'infinity'), copy.headers, doubted,
    least(sends.first_at, told.first_at), greatest(sends.last_at, told.last_at), sends.render_version
  FROM {cell}.payment_outbox_attempts copy -- only older rows have a payload of their own
  WHERE copy.outbox_id = replay_payment.outbox_id AND copy.attempt_no = whole.attempt_no;
  PERFORM {cell}.close_letter(replay_payment.outbox_id, 'manual_replay', replay_payment.reason);
  PERFORM {cell}.note_order_change(last.outbox_id, last.rail_type, true);
  PERFORM {cell}.log_operator_act('REPLAY', {cell}.instruction_of(last.outbox_id), last.outbox_id,
    replay_payment.reason,
    jsonb_strip_nulls(jsonb_build_object('letter', letter.reason, 'attempt_no', number, 'had_to_end', whole.expires_at,
      'expires_at', replay_payment.expires_at)));
  RETURN number;
END
$$;
-- end of replay_payment

-- function require_reason
CREATE OR REPLACE FUNCTION {cell}.require_reason(reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF coalesce(reason, '') COLLATE "C" !~ (E'[^\\s\\u0001-\\u0020\\u007F-\\u00A0\\u00AD\\u034F\\u061C\\u115F\\u1160\\u1680\\u17B4\\u17B5\\u180B-\\u180E'
    || E'\\u2000-\\u200F\\u2028-\\u202F\\u205F-\\u206F\\u2800\\u3000\\u3164\\uFE00-\\uFE0F\\uFEFF\\uFFA0]')
    OR octet_length(reason) > 2000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a reason of 1 to 2000 bytes is required',
      HINT = 'Give the reason, for the reader of the log.';
  END IF;
END
$$;
-- end of require_reason

-- function reschedule_payment
CREATE OR REPLACE FUNCTION {cell}.reschedule_payment(
  outbox_id uuid, due_at timestamptz, reason text, OUT was_due_at timestamptz, OUT is_due_at timestamptz) RETURNS record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  waiting {cell}.payment_outbox_pending;
  profile jsonb;
  moment  timestamptz := clock_timestamp();
BEGIN
  PERFORM {cell}.require_reason(reschedule_payment.reason);
  -- A year that was mistyped would send it at once.
  IF reschedule_payment.due_at <= moment THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('the due time %s is past: by the clock of the database it is %s', reschedule_payment.due_at, moment),
      HINT = 'To send it now: payment send-now.';
  END IF;
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

  moment := coalesce(reschedule_payment.due_at, moment);
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
    jsonb_strip_nulls(jsonb_build_object('from', waiting.next_attempt_at, 'asked', reschedule_payment.due_at, 'to', moment,
      'rows', waiting.attempt_count)));
  PERFORM {cell}.note_order_change(waiting.outbox_id, waiting.rail_type, true);
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
  reference text COLLATE "C" := btrim(resolve_payment.rail_reference);
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
  IF resolve_payment.executed IS NULL OR coalesce(btrim(resolve_payment.document), '') COLLATE "C" = ''
    OR resolve_payment.evidence_date IS NULL
    OR resolve_payment.executed AND coalesce(btrim(resolve_payment.rail_reference), '') COLLATE "C" = ''
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
        WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference
          AND own.error_code IS DISTINCT FROM 'RESOLVED')
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
          WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference
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

-- function resume_participant
CREATE OR REPLACE FUNCTION {cell}.resume_participant(participant_id text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  resumed boolean;
BEGIN
  PERFORM {cell}.require_reason(resume_participant.reason);
  DELETE FROM {cell}.payment_paused_participants p WHERE p.participant_id = resume_participant.participant_id;
  resumed := FOUND;
  IF NOT resumed AND NOT EXISTS (SELECT FROM {cell}.participant_outbox_sequences s
    WHERE s.participant_id = resume_participant.participant_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_packed_participants p
      WHERE p.participant_id = resume_participant.participant_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'this participant has never enqueued anything here',
      HINT = 'Check the participant_id.';
  END IF;
  PERFORM {cell}.log_operator_act('RESUME_PARTICIPANT', resume_participant.participant_id, NULL,
    resume_participant.reason);
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  RETURN resumed;
END
$$;
-- end of resume_participant

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 53, serves 13'
$$;
-- end of schema_version
