-- inquire_payment(outbox_id uuid, reason text) -> integer
--   Schedules one inquiry about a parked instruction with an unknown outcome: appends UNKNOWN with
--   ASKED, and inserts a pending row that is due for an inquiry at once. An answer that ends the
--   payment ends it; after any other answer, and after none, the instruction is parked again. It is
--   never sent: its claim is recognised by operator_asked, and payment.Policy.Decide parks it. The
--   dead letter stays open meanwhile. Returns the attempt_no of the row.
--
--   While the rail, the participant or everything is paused, nothing is claimed, not even an
--   inquiry. The call is then refused, so that an accepted inquiry is made soon. An inquiry that is
--   pending when a pause begins is made after the pause. While a suspension is open, it is refused on a rail whose
--   lane is suspended, because its keys do not cover the time since known_until: the lanes of other rails go on.
-- errors:  RH002 without a reason, RH010 unknown instruction, RH020 it is not parked, or
--          its rail answers no inquiries, with the reason; 55P03 after 5 s of waiting for a
--          lock.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_rails, payment_rail_profiles,
--          payment_paused_participants, payment_outbox_suspensions, and what payment_certainty, server_is_settled and
--          rules_while_suspended read.
-- writes:  payment_outbox_attempts, payment_outbox_pending, payment_order_marks, payment_operator_log.
-- locks:   the keys row, then the letter, then the pending row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.inquire_payment(outbox_id uuid, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter {cell}.payment_dead_letters;
  last   {cell}.payment_outbox_attempts;
  whole  record;
  sends  record;
  told   record; -- reported sends that a restore forgot
  paused text;
  suspended {cell}.payment_outbox_suspensions; -- the open one
  number integer;
BEGIN
  PERFORM {cell}.require_reason(inquire_payment.reason);
  PERFORM {cell}.lock_payment(inquire_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = inquire_payment.outbox_id FOR UPDATE;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = inquire_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  IF last.state IS DISTINCT FROM 'PARKED' OR {cell}.payment_certainty(inquire_payment.outbox_id,
    {cell}.server_is_settled()) <> 'OUTCOME_UNKNOWN'
    OR letter.reason IS NULL OR letter.reason NOT IN ({asked_reasons}) OR letter.status IN ({closed_letters})
    OR EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = inquire_payment.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only a parked instruction with an unknown outcome can be inquired about',
        coalesce({cell}.payment_outbox_state(inquire_payment.outbox_id), 'gone from the archive')),
      HINT = 'The rail is asked about a pending instruction without an operator, if it answers inquiries. Compare an '
        'ended instruction with the rail''s statement.';
  END IF;
  IF NOT EXISTS (
    SELECT FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    WHERE r.rail_type = last.rail_type AND (p.profile #>> '{inquiry,max}')::integer > 0)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('rail %s can''t be asked: its profile allows no inquiry', last.rail_type),
      HINT = 'Find out from the rail what became of the payment, then resolve it with that evidence.';
  END IF;
  paused := {cell}.pause_of(last.rail_type, letter.participant_id);
  IF paused IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('%s: no inquiry would be made', paused),
      HINT = 'Resume it, then ask. To resolve the payment as not executed meanwhile, give evidence and use '
        '--rail-silent.';
  END IF;
  -- Which lanes go on is decided in internal/lineage, which looks at earlier restores, too.
  SELECT s.* INTO suspended FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL;
  IF FOUND AND (
    SELECT bool_and(coalesce(r.rules ->> 'resend_on_unknown', 'NEVER') = 'SAME_KEY'
      AND suspended.known_until <= clock_timestamp()
      AND suspended.known_until > clock_timestamp() - (w.key_window - least(w.key_window / 10, interval '5 minutes')))
    FROM (
      SELECT p.profile AS rules
      FROM {cell}.payment_rails q
      JOIN {cell}.payment_rail_profiles p ON p.rail_type = q.rail_type AND p.version = q.profile_version
      WHERE q.rail_type = last.rail_type
      UNION ALL
      SELECT jsonb_array_elements(u.rules) FROM {cell}.rules_while_suspended() u WHERE u.rail_type = last.rail_type) r
    CROSS JOIN LATERAL (SELECT coalesce((r.rules ->> 'key_window')::interval, '0s') AS key_window) w) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the lane of rail %s is suspended since %s: no inquiry would be made', last.rail_type,
        to_char(suspended.opened_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
      HINT = 'Compare with the rails, and accept the server (railhead timeline accept), then ask. To resolve the payment '
        'as not executed meanwhile, give evidence and use --rail-silent.';
  END IF;
  -- The latest row with the content that was enqueued. The last row of an instruction that was
  -- stopped as TAMPERED has other content.
  SELECT a.attempt_no, a.participant_id, a.rail_type, a.payload, a.enqueued_at, a.priority, a.expires_at INTO whole
  FROM {cell}.v_outbox_attempts a
  JOIN {cell}.payment_outbox_keys k ON k.outbox_id = a.outbox_id
  WHERE a.outbox_id = inquire_payment.outbox_id AND a.payload IS NOT NULL
  ORDER BY {cell}.payment_outbox_fingerprint(a.participant_id, a.rail_type, a.payload) = k.fingerprint DESC,
    a.attempt_no DESC
  LIMIT 1;
  IF whole.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'no row has the payload any more: it can''t be inquired about',
      HINT = 'Find out from the rail what became of the payment, then resolve it with that evidence.';
  END IF;
  SELECT s.* INTO sends FROM {cell}.known_sends(inquire_payment.outbox_id) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends(inquire_payment.outbox_id) f;

  SELECT max(a.attempt_no) + 1 INTO number FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = inquire_payment.outbox_id;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, error_code, error_message, outcome_unknown,
      provisional)
  VALUES ({cell}.uuidv7(), last.outbox_id, last.rail_type, number, 'UNKNOWN', clock_timestamp(), 'ASKED',
    inquire_payment.reason, true, last.provisional);
  INSERT INTO {cell}.payment_outbox_pending
    (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
      headers, next_action, outcome_unknown, provisional,
     first_sent_at, last_sent_at, send_count, inquiry_count, render_version)
  SELECT last.outbox_id, whole.participant_id, whole.rail_type, copy.payload, number, clock_timestamp(),
    whole.enqueued_at, whole.priority, whole.expires_at, copy.headers, 'INQUIRE', true, last.provisional,
    least(sends.first_at, told.first_at), greatest(sends.last_at, told.last_at), sends.n + told.n,
    (SELECT count(*) FROM {cell}.payment_outbox_attempts q WHERE q.outbox_id = inquire_payment.outbox_id
      AND q.state = 'INQUIRING'),
    sends.render_version
  FROM {cell}.payment_outbox_attempts copy -- only older rows have a payload of their own
  WHERE copy.outbox_id = inquire_payment.outbox_id AND copy.attempt_no = whole.attempt_no;
  PERFORM {cell}.note_order_change(last.outbox_id, last.rail_type, true);
  PERFORM {cell}.log_operator_act('INQUIRE', {cell}.instruction_of(last.outbox_id), last.outbox_id,
    inquire_payment.reason,
    jsonb_build_object('attempt_no', number));
  RETURN number;
END
$$;
