-- pause_participant(participant_id text, reason text [, until timestamptz]) -> boolean
--   Stops claims of a participant's instructions. The reaper ends the pause at until; if until is
--   null, an operator has to. Returns true if the participant was not paused before. A pause that
--   is in force keeps its login and time. Its reason then has both (text_of_stops), and it ends at
--   the later of the two ends, or never if one of them is null. One that another session ends meanwhile
--   (end_pauses, resume_participant) is waited for: when the call returns, the participant is paused.
-- errors:  RH002 without a reason, or with an until that is past or more than 366 days ahead;
--          RH010 a participant that never enqueued, 55P03 after 5 s of waiting for a lock.
-- reads:   participant_outbox_sequences, payment_packed_participants.
-- writes:  payment_paused_participants, payment_operator_log.   locks: the row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.pause_participant(participant_id text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  paused boolean;
  asked jsonb;
BEGIN
  PERFORM {cell}.require_reason(pause_participant.reason);
  PERFORM {cell}.require_end(pause_participant.until);
  IF NOT EXISTS (SELECT FROM {cell}.participant_outbox_sequences s
    WHERE s.participant_id = pause_participant.participant_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_packed_participants p
      WHERE p.participant_id = pause_participant.participant_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'this participant has never enqueued anything here',
      HINT = 'Check the participant_id.';
  END IF;
  LOOP
    asked := {cell}.add_stop(NULL, NULL, NULL, pause_participant.reason);
    INSERT INTO {cell}.payment_paused_participants (participant_id, paused_by, pause_reason, paused_until, stops)
    VALUES (pause_participant.participant_id, session_user, {cell}.text_of_stops(asked), pause_participant.until, asked)
    ON CONFLICT DO NOTHING;
    paused := FOUND;
    EXIT WHEN paused;
    -- Where another session ends that pause, the insert does not wait for it. This does, and finds no row then.
    SELECT {cell}.add_stop(p.stops, p.pause_reason, p.paused_by, pause_participant.reason) INTO asked
    FROM {cell}.payment_paused_participants p
    WHERE p.participant_id = pause_participant.participant_id FOR UPDATE;
    CONTINUE WHEN NOT FOUND;
    UPDATE {cell}.payment_paused_participants p
    SET paused_until = CASE WHEN pause_participant.until IS NULL OR p.paused_until IS NULL THEN NULL
      ELSE greatest(p.paused_until, pause_participant.until) END,
      pause_reason = {cell}.text_of_stops(asked), stops = asked
    WHERE p.participant_id = pause_participant.participant_id;
    EXIT;
  END LOOP;
  PERFORM {cell}.log_operator_act('PAUSE_PARTICIPANT', pause_participant.participant_id, NULL, pause_participant.reason,
    jsonb_strip_nulls(jsonb_build_object('until', pause_participant.until)));
  RETURN paused;
END
$$;
