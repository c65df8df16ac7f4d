-- open_conflict(outbox_id uuid, error_code text) -> void
--   Records that the last row of the instruction contradicts earlier ones, and opens its dead letter as
--   CONFLICT. Its writer calls it. No component can: that rows contradict each other is found by the
--   functions that append them.
-- reads:   payment_outbox_attempts, and what open_dead_letters reads.
-- writes:  payment_outbox_contradictions, payment_dead_letters.   locks: the letter's row.
-- called by: record_late_outcome, answer_open_claim.
CREATE OR REPLACE FUNCTION {cell}.open_conflict(outbox_id uuid, error_code text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  INSERT INTO {cell}.payment_outbox_contradictions (outbox_id, attempt_no)
  SELECT a.outbox_id, max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = open_conflict.outbox_id GROUP BY a.outbox_id
  ON CONFLICT DO NOTHING;
  PERFORM {cell}.open_dead_letters(ARRAY[open_conflict.outbox_id], ARRAY['CONFLICT'], ARRAY[open_conflict.error_code]);
END
$$;
