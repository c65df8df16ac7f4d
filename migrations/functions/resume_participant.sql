-- resume_participant(participant_id text, reason text) -> boolean
--   Ends the pause of a participant. Returns true if the participant was paused.
-- errors:  RH002 without a reason, RH010 a participant that never enqueued, 55P03 after 5 s of waiting for a lock.
-- reads:   participant_outbox_sequences, payment_packed_participants.
-- writes:  payment_paused_participants, payment_operator_log.   locks: the row.   called by: operator.
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
