-- close_letter(outbox_id uuid, status text, note text) -> void
--   Sets the status and the note of the dead letter of an instruction, if it has one.
-- writes:  payment_dead_letters.   locks: the letter's row.   called by: operator functions.
CREATE OR REPLACE FUNCTION {cell}.close_letter(outbox_id uuid, status text, note text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  UPDATE {cell}.payment_dead_letters d
  SET status = $2, note = $3, actor = session_user, updated_at = clock_timestamp()
  WHERE d.outbox_id = $1
$$;
