-- open_dead_letter(outbox_id uuid, reason text, error_code text) -> void
--   Opens the instruction's dead letter, or reopens it with a new reason.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_outbox_pending.
-- writes:  payment_dead_letters.   locks: the letter's row.
-- called by: record_late_outcome, operator functions.
CREATE OR REPLACE FUNCTION {cell}.open_dead_letter(outbox_id uuid, reason text, error_code text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  INSERT INTO {cell}.payment_dead_letters AS d (outbox_id, instruction_id, participant_id, rail_type, reason, error_code)
  SELECT k.outbox_id, k.instruction_id, k.participant_id,
    coalesce(
      (SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no LIMIT 1),
      (SELECT p.rail_type FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1)),
    $2, $3
  FROM {cell}.payment_outbox_keys k
  WHERE k.outbox_id = $1
  ON CONFLICT ON CONSTRAINT payment_dead_letters_pk
  DO UPDATE SET reason = excluded.reason, error_code = excluded.error_code, status = 'pending',
    opened_at = CASE WHEN d.status IN ('manual_replay', 'resolved') THEN excluded.opened_at ELSE d.opened_at END,
    updated_at = excluded.updated_at
$$;
