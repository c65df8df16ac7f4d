-- replay_payment(outbox_id uuid, reason text [, expires_at timestamptz]) -> integer
--   Returns a dead letter to pending under the same outbox_id, sequence_id and rail key. Resets the
--   counters, but not the time of the first send, and sets a new expires_at (null: the one that it has, which must be
--   yet to come; infinity: never). Returns the attempt_no of the REPLAYED row. A quarantined row only becomes due
--   again, with the new expires_at if one is given, else with its own, which may be past only if its outcome is unknown;
--   the call then returns the last attempt_no.
--
--   That it was not paid is what its last row says, and never its dead letter alone.
--
--   A replay that only the rail's "no such payment" allows, on a rail that does not keep the key, is sent within
--   15 minutes or parked again (just_replayed). It is refused while a pause would hold it up.
-- errors:  RH002 without a reason, or with an expires_at after the year 9999; RH006 expires_at is past, RH010 unknown
--          instruction, RH020 it can't be replayed, with the reason, or it has expired and no new expires_at is given, or a
--          suspension is open; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_rails, payment_rail_profiles,
--          payment_outbox_suspensions,
--          and what require_settled_server, forgotten_since, payment_certainty, other_cell_key and pause_of read.
-- writes:  payment_outbox_attempts, payment_outbox_pending, payment_dead_letters, payment_order_marks, payment_operator_log.
-- locks:   the keys row, then pending or letter.   called by: operator.
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
  other      record; -- the key in another cell
  doubted    boolean; -- some send may still be in progress
  key_window interval; -- the shortest one
  known_for interval; -- the longest key window
  keyed      boolean; -- the rail keeps the key of each send
  paused     text;
  unpaid     boolean; -- it has ended, and was certainly not made
  had_to_end timestamptz; -- when a quarantined row that is not in doubt expires
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
  IF letter.status IN ({closed_letters}) THEN
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

  SELECT o.other_id, o.cell INTO other FROM {cell}.other_cell_key(replay_payment.outbox_id) o;
  IF FOUND AND {cell}.payment_certainty(replay_payment.outbox_id, true) = 'OUTCOME_UNKNOWN' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = coalesce('another cell has its key, too, as ' || other.other_id, format(
        'cell %s was settled to take its participant, and may have its key, too', other.cell))
        || ': the payment may have been made there',
      HINT = 'See what became of it there. If it was not made, '
        || CASE letter.reason WHEN 'UNCLAIMABLE' THEN 'end it here first, by a cancellation or by evidence'
          ELSE 'close the dead letter first' END
        || '; then the participant enqueues it again as a new instruction.';
  END IF;

  IF letter.reason = 'UNCLAIMABLE' THEN
    IF {cell}.put_back_after(replay_payment.outbox_id) IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the instruction is %s and was put back in pending: it can''t be replayed',
          {cell}.put_back_after(replay_payment.outbox_id)),
        HINT = CASE WHEN {cell}.put_back_after(replay_payment.outbox_id) IN ({ended_states}, {claim_states})
          THEN 'Close its dead letter, or resolve it if it may have been paid.'
          ELSE 'Find out from the rail what became of the payment, then resolve it with that evidence, which removes it '
            'from pending.' END;
    END IF;
    had_to_end := (
      SELECT p.expires_at FROM {cell}.payment_outbox_pending p
      WHERE p.outbox_id = replay_payment.outbox_id AND NOT p.outcome_unknown);
    IF replay_payment.expires_at IS NULL AND had_to_end <= clock_timestamp() THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('it had to be sent before %s, which is past: it would end as EXPIRED, unsent', had_to_end),
        HINT = 'Ask its participant whether the payment is still wanted. Then give a new expiry (--expires-at TIME), or say '
          'that it has none (--never-expires). To end it: cancel it.';
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

  IF letter.reason IN ({unpaid_reasons}) AND last.state <> 'FAILED' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('its dead letter says %s, and its last row is %s: the payment may have been made', letter.reason,
        last.state),
      HINT = 'Find out who changed the dead letter (railhead prove run nothing-lost). Find out from the rail what became of '
        'the payment, then resolve it with that evidence. Only "not executed" may be replayed after that.';
  END IF;
  IF letter.reason NOT IN ({unpaid_reasons}) AND NOT (
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
  IF last.state IS NULL OR last.state NOT IN ({replayable_states}) THEN
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
        AND (a.result IN ({doubtful_results}, 'IN_PROGRESS') OR a.outcome_unknown AND NOT last.outcome_unknown)))
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
