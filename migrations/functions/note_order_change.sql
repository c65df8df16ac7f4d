-- note_order_change(outbox_id uuid, rail_type text, back boolean) -> void
--   Marks the line of an instruction's participant, if the profile in force orders it, so that the next
--   turn advances the line and claims nothing of it before. With back the instruction has returned to
--   pending, and the walk begins at its number at the latest. A mark is a row of its own: writing it
--   waits for no turn, and a turn consumes only marks that it sees. With back it waits for a profile
--   that is being applied and changes the order, because that looks for what is in pending.
-- reads:   payment_outbox_keys, payment_rails, payment_rail_profiles.
-- writes:  payment_order_marks.   locks: with back, the order of the rail, shared (an advisory lock).
-- called by: executor (expire, quarantine), append_outbox_row, close_letter, cancel_payment, replay_payment,
--          inquire_payment, reschedule_payment, skip_in_order.
CREATE OR REPLACE FUNCTION {cell}.note_order_change(outbox_id uuid, rail_type text, back boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  IF $3 THEN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('{cell}.order_of_rail ' || $2, 0));
  END IF;
  INSERT INTO {cell}.payment_order_marks (rail_type, participant_id, sequence_id)
  SELECT r.rail_type, k.participant_id, CASE WHEN $3 THEN k.sequence_id END
  FROM {cell}.payment_outbox_keys k
  JOIN {cell}.payment_rails r ON r.rail_type = $2
  JOIN {cell}.payment_rail_profiles f ON f.rail_type = r.rail_type AND f.version = r.profile_version
  WHERE k.outbox_id = $1
    -- Above READ COMMITTED the profile may be another since the snapshot.
    AND (coalesce(f.profile -> 'order_participants' ->> k.participant_id, f.profile ->> 'order') = 'STRICT'
      OR $3 AND current_setting('transaction_isolation') <> 'read committed');
  IF FOUND THEN
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  END IF;
END
$$;
