-- resume_participant(participant_id text, reason text) -> boolean
--   Ends the pause of a participant. Returns true if the participant was paused.
-- errors:  RH002 without a reason, 55P03 after 5 s of waiting for a lock.
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
  PERFORM {cell}.log_operator_act('RESUME_PARTICIPANT', resume_participant.participant_id, NULL,
    resume_participant.reason);
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  RETURN resumed;
END
$$;
