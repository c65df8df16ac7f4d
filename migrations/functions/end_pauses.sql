-- end_pauses() -> setof text
--   Ends the pauses whose end has come, and writes that into the operator log. Returns
--   what goes on, as pause_of says it: 'rail bank', 'everything', 'participant p'. A row
--   that an operator has locked is left to the next call.
-- writes:  payment_rails, payment_paused_participants, payment_operator_log.
-- locks:   the rows that it ends.   called by: executor (the reaper).
CREATE OR REPLACE FUNCTION {cell}.end_pauses() RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  ended record;
BEGIN
  FOR ended IN
    SELECT r.rail_type, r.pause_reason FROM {cell}.payment_rails r
    WHERE r.paused AND r.paused_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED
  LOOP
    UPDATE {cell}.payment_rails r
    SET paused = false, paused_by_itself = false, paused_by = NULL, paused_at = NULL, pause_reason = NULL,
      paused_until = NULL, updated_at = clock_timestamp()
    WHERE r.rail_type = ended.rail_type;
    PERFORM {cell}.log_operator_act('RESUME_RAIL', ended.rail_type, NULL, 'the end of the pause has come: ' || ended.pause_reason);
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN NEXT CASE ended.rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || ended.rail_type END;
  END LOOP;
  FOR ended IN
    SELECT p.participant_id, p.pause_reason FROM {cell}.payment_paused_participants p
    WHERE p.paused_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED
  LOOP
    DELETE FROM {cell}.payment_paused_participants p WHERE p.participant_id = ended.participant_id;
    PERFORM {cell}.log_operator_act('RESUME_PARTICIPANT', ended.participant_id, NULL, 'the end of the pause has come: ' || ended.pause_reason);
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN NEXT 'participant ' || ended.participant_id;
  END LOOP;
END
$$;
