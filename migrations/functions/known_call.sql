-- known_call(known_id uuid) -> (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text)
--   What a call is answered that repeats the call of this instruction: the instruction, with its state
--   (payment_outbox_state). If it has ended as not executed, and another cell has its key, too, or may have it, state is
--   ELSEWHERE, and the others are those of the instruction in that cell, where they are known: the caller must not take
--   it that nothing was paid.
-- reads:   payment_outbox_keys, and what payment_outbox_state and other_cell_key read; of what has ended as not executed
--          in a cell of a directory also what payment_certainty reads.   writes, locks: nothing.
-- called by: the enqueue functions.
CREATE OR REPLACE FUNCTION {cell}.known_call(known_id uuid)
RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  other record;
BEGIN
  SELECT k.outbox_id, k.sequence_id, k.created_at, {cell}.payment_outbox_state(k.outbox_id)
  INTO outbox_id, sequence_id, created_at, state
  FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = $1;
  IF state IN ({unpaid_states}) THEN
    SELECT o.* INTO other FROM {cell}.other_cell_key($1) o;
    IF FOUND AND {cell}.payment_certainty($1, true) = 'OUTCOME_UNKNOWN' THEN
      state := 'ELSEWHERE';
      outbox_id := coalesce(other.other_id, outbox_id);
      sequence_id := coalesce(other.other_no, sequence_id);
      created_at := coalesce(other.other_at, created_at);
    END IF;
  END IF;
  RETURN NEXT;
END
$$;
