-- skip_in_order(outbox_id uuid, reason text) -> bigint
--   Lets the line of a participant go on past its head, which has ended or is parked. Changes
--   nothing about the instruction and its dead letter. Returns the sequence_id that was passed. The
--   row in the log is what resolves the instruction, as it stands: with its next row, after a replay or
--   an inquiry, it holds the line again; what else was skipped stays skipped.
-- errors:  RH002 without a reason, RH010 unknown instruction, RH020 nothing waits behind it in order, it was skipped
--          as it stands, one with a lower number waits too, or it is pending or claimed, with the reason; 55P03 after
--          5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_rails, payment_outbox_pending, payment_outbox_attempts, payment_order_lines,
--          payment_rail_profiles, payment_dead_letters, payment_operator_log.
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
  SELECT a.state, a.attempt_no INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = skip_in_order.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT h.* INTO line
  FROM {cell}.payment_outbox_keys k
  CROSS JOIN {cell}.payment_rails r
  JOIN {cell}.payment_order_lines h ON h.rail_type = r.rail_type AND h.participant_id = k.participant_id
  WHERE k.outbox_id = skip_in_order.outbox_id AND h.head = k.outbox_id
    AND NOT EXISTS (
      SELECT FROM {cell}.payment_operator_log l
      WHERE l.outbox_id = k.outbox_id AND l.act = 'SKIP_IN_ORDER'
        AND (l.detail ->> 'attempt_no')::integer = coalesce(last.attempt_no, 0));
  IF NOT FOUND THEN
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
