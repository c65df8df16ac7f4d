-- reschedule_payment(outbox_id uuid, due_at timestamptz, reason text) -> record (was_due_at, is_due_at)
--   Changes the due time of a pending instruction, and nothing else: pauses, suspensions, the key
--   window and expires_at stay in force, and an inquiry is not made before inquiry.not_before of
--   the profile has passed since the last send. A due_at that is null means now. Returns
--   the due time before and after.
-- errors:  RH002 without a reason, or with a due_at that is past or more than 366 days ahead; RH010
--          unknown instruction; RH020 it is not pending, or would expire before, with the
--          reason; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_rails, payment_rail_profiles, payment_dead_letters.
-- writes:  payment_outbox_pending, payment_order_marks, payment_operator_log.
-- locks:   the keys row, then the pending row.   called by: operator.
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
