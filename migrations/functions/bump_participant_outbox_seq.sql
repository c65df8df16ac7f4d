-- bump_participant_outbox_seq(participant_id text) -> bigint
--   Allocates the participant's next sequence_id by one upsert in the caller's transaction, so that
--   a rollback leaves no gap.
-- errors:  40001 above READ COMMITTED if the participant's row has changed since the snapshot.
-- writes:  participant_outbox_sequences.
-- locks:   the participant's row, until the caller's transaction ends.
-- called by: owner's functions; no role may execute it.
CREATE OR REPLACE FUNCTION {cell}.bump_participant_outbox_seq(participant_id text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  sequence_id bigint;
BEGIN
  INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id)
  VALUES (participant_id, 2)
  ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
  DO UPDATE SET next_sequence_id = s.next_sequence_id + 1
  RETURNING s.next_sequence_id - 1 INTO sequence_id;
  RETURN sequence_id;
END
$$;
