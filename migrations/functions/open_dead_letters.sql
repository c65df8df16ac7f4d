-- open_dead_letters(outbox_ids uuid[], reasons text[], error_codes text[]) -> void
--   Opens the dead letter of each instruction, or reopens it with the new reason. One
--   that is open keeps the time since when; an open CONFLICT keeps its reason too,
--   because a person has to compare what contradicts itself, whatever came after, and
--   TAMPERED does where the row is set aside.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_outbox_pending.
-- writes:  payment_dead_letters.   locks: the letters' rows, in the order of outbox_id.
-- called by: executor (record, set_aside, expire), record_late_outcome, answer_open_claim.
CREATE OR REPLACE FUNCTION {cell}.open_dead_letters(outbox_ids uuid[], reasons text[], error_codes text[]) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  INSERT INTO {cell}.payment_dead_letters AS d (outbox_id, instruction_id, participant_id, rail_type, reason, error_code)
  SELECT k.outbox_id, k.instruction_id, k.participant_id,
    coalesce(
      (SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id ORDER BY a.attempt_no LIMIT 1),
      (SELECT p.rail_type FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = k.outbox_id)),
    l.reason, l.error_code
  FROM unnest($1, $2, $3) AS l(outbox_id, reason, error_code)
  JOIN {cell}.payment_outbox_keys k ON k.outbox_id = l.outbox_id
  ORDER BY k.outbox_id
  ON CONFLICT ON CONSTRAINT payment_dead_letters_pk DO UPDATE SET
    reason = CASE
      WHEN d.status NOT IN ('manual_replay', 'resolved')
        AND (d.reason = 'CONFLICT' OR d.reason = 'TAMPERED' AND excluded.reason = 'UNCLAIMABLE') THEN d.reason
      ELSE excluded.reason END,
    error_code = excluded.error_code,
    status = 'pending',
    opened_at = CASE WHEN d.status IN ('manual_replay', 'resolved') THEN excluded.opened_at ELSE d.opened_at END,
    updated_at = excluded.updated_at
$$;
