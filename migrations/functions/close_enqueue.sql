-- close_enqueue(scope text, name text, reason text [, until timestamptz]) -> boolean
--   Refuses with RH014 new instructions of a rail ('rail', its rail_type), of a participant
--   ('participant', its participant_id) or of the whole cell ('cell', '*'). Instructions that are
--   already enqueued are dispatched, and a repeated call for one of them is answered as before. The
--   reaper opens the gate at until; if until is null, an operator has to. Returns true if the gate
--   was open. A gate that is already closed keeps its login and time. Its reason then has both
--   (text_of_stops), and it opens at the later of the two ends, or never if one of them is null.
--
--   An enqueue reads the gates once, when it begins. One that is in progress when this function
--   commits may still be accepted. One that begins later in a transaction above READ COMMITTED whose
--   snapshot is older fails with 40001 (require_current_rules).
-- errors:  RH002 without a reason, with an until that is past or more than 366 days ahead, or
--          with an unknown scope; RH003 unknown rail; RH005 100 participants are closed already;
--          RH010 a participant that never enqueued; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_rules, and what require_gate reads.
-- writes:  payment_closed_gates, payment_outbox_rules by its trigger, payment_operator_log.
-- locks:   the row of payment_outbox_rules, which no enqueue waits for.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.close_enqueue(scope text, name text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  -- This limit keeps the marks of all gates, and so the row of payment_outbox_rules, within one
  -- page.
  participants_max CONSTANT integer := 100;
  was_open boolean;
  asked jsonb;
BEGIN
  PERFORM {cell}.require_reason(close_enqueue.reason);
  PERFORM {cell}.require_end(close_enqueue.until);
  PERFORM {cell}.require_gate(close_enqueue.scope, close_enqueue.name);
  -- This lock serializes calls: whether the gate is closed, and how many are, does not change until
  -- the commit.
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE;
  asked := {cell}.add_stop(NULL, NULL, NULL, close_enqueue.reason);
  INSERT INTO {cell}.payment_closed_gates (scope, name, closed_by, close_reason, closed_until, stops)
  VALUES (close_enqueue.scope, close_enqueue.name, session_user, {cell}.text_of_stops(asked), close_enqueue.until,
    asked)
  ON CONFLICT ON CONSTRAINT payment_closed_gates_pk DO NOTHING;
  was_open := FOUND;
  IF NOT was_open THEN
    SELECT {cell}.add_stop(g.stops, g.close_reason, g.closed_by, close_enqueue.reason) INTO asked
    FROM {cell}.payment_closed_gates g
    WHERE g.scope = close_enqueue.scope AND g.name = close_enqueue.name FOR UPDATE;
    UPDATE {cell}.payment_closed_gates g
    SET closed_until = CASE WHEN g.closed_until < close_enqueue.until OR close_enqueue.until IS NULL
      THEN close_enqueue.until ELSE g.closed_until END,
      close_reason = {cell}.text_of_stops(asked), stops = asked
    WHERE g.scope = close_enqueue.scope AND g.name = close_enqueue.name;
  END IF;
  IF (SELECT count(*) FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant') > participants_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('enqueue is closed for %s participants already',
      participants_max),
      HINT = 'Close the rail or the whole cell, or open one of them first.';
  END IF;
  PERFORM {cell}.log_operator_act('CLOSE_ENQUEUE', close_enqueue.name, NULL, close_enqueue.reason,
    jsonb_strip_nulls(jsonb_build_object('scope', close_enqueue.scope, 'until', close_enqueue.until)));
  RETURN was_open;
END
$$;
