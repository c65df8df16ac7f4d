-- close_letter(outbox_id uuid, status text, note text) -> void
--   Sets the status and the note of the dead letter of an instruction, if it has one. Only where that closes the
--   letter, or opens it again, the line of its participant is marked.
-- reads:   payment_outbox_keys, payment_dead_letters,
--          payment_rails, payment_rail_profiles.
-- writes:  payment_dead_letters, payment_order_marks.   locks: the letter's row.
-- called by: operator functions.
CREATE OR REPLACE FUNCTION {cell}.close_letter(outbox_id uuid, status text, note text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  rail    text COLLATE "C";
  changes boolean; -- whether the letter is closed, or open, only from now on
BEGIN
  SELECT (d.status IN ({closed_letters})) <> ($2 IN ({closed_letters})) INTO changes
  FROM {cell}.payment_dead_letters d WHERE d.outbox_id = $1 FOR UPDATE;
  UPDATE {cell}.payment_dead_letters d
  SET status = $2, note = $3, actor = session_user, updated_at = clock_timestamp()
  WHERE d.outbox_id = $1
  RETURNING d.rail_type INTO rail;
  IF changes THEN
    PERFORM {cell}.note_order_change($1, rail, false);
  END IF;
END
$$;
