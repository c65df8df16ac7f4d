-- close_letter(outbox_id uuid, status text, note text) -> void
--   Sets the status and the note of the dead letter of an instruction, if it has one.
-- reads:   payment_outbox_keys,
--          payment_rails, payment_rail_profiles.
-- writes:  payment_dead_letters, payment_order_marks.   locks: the letter's row.
-- called by: operator functions.
CREATE OR REPLACE FUNCTION {cell}.close_letter(outbox_id uuid, status text, note text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  rail text COLLATE "C";
BEGIN
  UPDATE {cell}.payment_dead_letters d
  SET status = $2, note = $3, actor = session_user, updated_at = clock_timestamp()
  WHERE d.outbox_id = $1
  RETURNING d.rail_type INTO rail;
  IF FOUND THEN
    PERFORM {cell}.note_order_change($1, rail, false);
  END IF;
END
$$;
