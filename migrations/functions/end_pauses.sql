-- end_pauses() -> setof text
--   Ends the pauses whose end has come, opens the gates whose end has come, and writes both to the
--   operator log. Returns what was resumed, in the form of pause_of: 'rail bank', 'everything' or
--   'participant p', and for a gate 'enqueue for rail bank'. Rows that an operator has locked are
--   left to the next call.
--
--   A reason has at most 2,000 characters of at most 4 bytes. With the text before it, the 2000 bytes
--   of the log hold 490 characters of it.
-- reads:   payment_outbox_rules.
-- writes:  payment_rails, payment_paused_participants, payment_closed_gates, payment_outbox_rules by its trigger,
--          payment_operator_log.
-- locks:   the rows that it ends, and for a gate the row of payment_outbox_rules.
-- called by: executor (the reaper).
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
    SET paused = false, auto_paused = false, paused_by = NULL, paused_at = NULL, pause_reason = NULL,
      paused_until = NULL, stops = NULL, updated_at = clock_timestamp()
    WHERE r.rail_type = ended.rail_type;
    PERFORM {cell}.log_operator_act('RESUME_RAIL', ended.rail_type,
      NULL, 'the end of the pause has come: ' || left(ended.pause_reason, 490));
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN NEXT CASE ended.rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || ended.rail_type END;
  END LOOP;
  FOR ended IN
    SELECT p.participant_id, p.pause_reason FROM {cell}.payment_paused_participants p
    WHERE p.paused_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED
  LOOP
    DELETE FROM {cell}.payment_paused_participants p WHERE p.participant_id = ended.participant_id;
    PERFORM {cell}.log_operator_act('RESUME_PARTICIPANT', ended.participant_id, NULL, 'the end of the pause has come: '
      || left(ended.pause_reason, 490));
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN NEXT 'participant ' || ended.participant_id;
  END LOOP;
  IF EXISTS (SELECT FROM {cell}.payment_closed_gates g WHERE g.closed_until <= clock_timestamp()) THEN
    PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      FOR ended IN
        DELETE FROM {cell}.payment_closed_gates g WHERE g.closed_until <= clock_timestamp()
        RETURNING g.scope, g.name, g.close_reason
      LOOP
        PERFORM {cell}.log_operator_act('OPEN_ENQUEUE', ended.name, NULL, 'the end of the closing has come: '
          || left(ended.close_reason, 490),
          jsonb_build_object('scope', ended.scope));
        RETURN NEXT 'enqueue for ' || CASE ended.scope WHEN 'cell' THEN 'everything' ELSE ended.scope || ' '
          || ended.name END;
      END LOOP;
    END IF;
  END IF;
END
$$;
