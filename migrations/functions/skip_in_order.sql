-- skip_in_order(outbox_id uuid, reason text) -> bigint
--   Lets the line of a participant go on past its head, which has ended or is parked. Changes
--   nothing about the instruction and its dead letter. Returns the sequence_id that was passed. The
--   row in the log is what resolves the instruction, as it stands: with its next row, after a replay or
--   an inquiry, it holds the line again; what else was skipped stays skipped.
-- errors:  RH002 without a reason, RH010 unknown instruction, RH020 nothing waits behind it in order, it was skipped
--          as it stands, no turn has advanced its line since that changed, one with a lower number waits too, or it is
--          pending or claimed, with the reason; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_rails, payment_outbox_pending, payment_outbox_attempts, payment_order_lines,
--          payment_order_marks, payment_rail_profiles, payment_outbox_instructions, payment_dead_letters,
--          payment_operator_log.
-- writes:  payment_order_marks, payment_operator_log.
-- locks:   the keys row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.skip_in_order(outbox_id uuid, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  number bigint;
  line   {cell}.payment_order_lines;
  last   record;
BEGIN
  PERFORM {cell}.require_reason(skip_in_order.reason);
  PERFORM {cell}.lock_payment(skip_in_order.outbox_id);
  SELECT k.sequence_id INTO number FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = skip_in_order.outbox_id;
  SELECT a.state, a.attempt_no, a.rail_type INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = skip_in_order.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  IF EXISTS (
    SELECT FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = skip_in_order.outbox_id AND l.act = 'SKIP_IN_ORDER'
      AND (l.detail ->> 'attempt_no')::integer = coalesce(last.attempt_no, 0))
    -- A row that was put back in pending holds the line whatever was skipped.
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = skip_in_order.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction was skipped already, as it stands: it holds nothing back',
      HINT = 'The line goes on with the next turn of a relayer that serves the rail, unless the rail is paused.';
  END IF;
  SELECT h.* INTO line
  FROM {cell}.payment_outbox_keys k
  CROSS JOIN {cell}.payment_rails r
  JOIN {cell}.payment_order_lines h ON h.rail_type = r.rail_type AND h.participant_id = k.participant_id
  WHERE k.outbox_id = skip_in_order.outbox_id AND h.head = k.outbox_id;
  IF NOT FOUND THEN
    -- While no turn advances the line, it does not show that its instruction has ended.
    PERFORM
    FROM {cell}.payment_outbox_keys k
    LEFT JOIN {cell}.payment_outbox_instructions i ON i.outbox_id = k.outbox_id
    JOIN {cell}.payment_rails r ON r.rail_type = coalesce(last.rail_type, i.rail_type)
    JOIN {cell}.payment_rail_profiles f ON f.rail_type = r.rail_type AND f.version = r.profile_version
    WHERE k.outbox_id = skip_in_order.outbox_id AND coalesce(last.state NOT IN ({claim_states}), true)
      AND coalesce(f.profile -> 'order_participants' ->> k.participant_id, f.profile ->> 'order') = 'STRICT'
      AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = k.outbox_id)
      AND (EXISTS (
          SELECT FROM {cell}.payment_order_marks m
          WHERE m.rail_type = r.rail_type AND m.participant_id = k.participant_id)
        OR NOT EXISTS (
          SELECT FROM {cell}.payment_order_lines h
          WHERE h.rail_type = r.rail_type AND h.participant_id = k.participant_id));
    IF FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'no turn has advanced the line of the participant since it changed: whether one waits behind the '
          'instruction is not known yet',
        HINT = 'A relayer that serves the rail advances it: resume the rail if it is paused, or start a relayer. Then call again.';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction is not the head of a line: none waits behind it because of its order',
      HINT = 'payment show of an instruction that waits names the one before it.';
  END IF;
  IF line.floor < number OR EXISTS (
    SELECT FROM {cell}.payment_order_marks m
    WHERE m.rail_type = line.rail_type AND m.participant_id = line.participant_id AND m.sequence_id < number)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'one with a lower number has returned to pending, and goes before the instruction: it can''t be skipped now',
      HINT = 'Skip it once it is the head again. payment show of an instruction that waits names the one before it.';
  END IF;
  IF EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = skip_in_order.outbox_id)
    OR last.state IN ({claim_states})
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only one that has ended or is parked can be skipped',
        {cell}.payment_outbox_state(skip_in_order.outbox_id)),
      HINT = 'Cancel it, or change its due time with payment reschedule. One that is quarantined is replayed, cancelled '
        'or resolved.';
  END IF;
  PERFORM {cell}.log_operator_act('SKIP_IN_ORDER', {cell}.instruction_of(skip_in_order.outbox_id),
    skip_in_order.outbox_id, skip_in_order.reason,
    jsonb_build_object('sequence_id', number, 'attempt_no', coalesce(last.attempt_no, 0), 'state', last.state,
      'blocked_by', line.blocked_by));
  PERFORM {cell}.note_order_change(skip_in_order.outbox_id, line.rail_type, false);
  RETURN number;
END
$$;
