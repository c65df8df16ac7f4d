-- pause_participant(participant_id text, reason text) -> boolean
--   Stops claims of a participant's instructions. True if it was not paused before.
-- errors:  RH002 without a reason, RH010 a participant that never enqueued,
--          55P03 after 5 s of waiting for a lock.
-- writes:  payment_paused_participants, payment_operator_log.   locks: the row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.pause_participant(participant_id text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  paused boolean;
BEGIN
  PERFORM {cell}.require_reason(pause_participant.reason);
  IF NOT EXISTS (SELECT FROM {cell}.participant_outbox_sequences s WHERE s.participant_id = pause_participant.participant_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'this participant has never enqueued anything here', HINT = 'Check the participant_id.';
  END IF;
  INSERT INTO {cell}.payment_paused_participants (participant_id, paused_by, pause_reason)
  VALUES (pause_participant.participant_id, session_user, left(pause_participant.reason, 500))
  ON CONFLICT DO NOTHING;
  paused := FOUND;
  PERFORM {cell}.log_operator_act('PAUSE_PARTICIPANT', pause_participant.participant_id, NULL, pause_participant.reason);
  RETURN paused;
END
$$;
