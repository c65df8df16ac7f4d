-- other_cell_key(outbox_id uuid) -> (other_id uuid, other_no bigint, other_at timestamptz, cell text)
--   Whether another cell has, or may have, an instruction of its own with the key of this one, or with its
--   instruction_id where second keys are not allowed: then the rows of this cell do not prove that the payment was not
--   made. No row: no. other_id, other_no and other_at are the outbox_id, number and time of that instruction, which has
--   come to this cell with its participant. If they are null, an operator has settled that cell takes the bucket of the
--   participant, this cell has stored the instruction before the bucket came back to it, and the keys of the other cell
--   are not here: a caller may have repeated the call there. That is not said of what had ended before the settlement,
--   and was enqueued more than repeated_within before it.
-- reads:   payment_cells, payment_outbox_keys, payment_arrived_keys, by instruction_id; payment_arrivals,
--          payment_cell_changes, payment_outbox_settings, payment_outbox_pending, payment_outbox_attempts.   locks: nothing.
-- called by: executor (before it expires an instruction), readers, operator (after a cancellation), payment_certainty,
--          known_call, event_outcome_unknown, replay_payment.
CREATE OR REPLACE FUNCTION {cell}.other_cell_key(outbox_id uuid)
RETURNS TABLE (other_id uuid, other_no bigint, other_at timestamptz, cell text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  here uuid;
  own  record;
BEGIN
  SELECT c.cell_id INTO here FROM {cell}.payment_cells c WHERE c.here;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT k.outbox_id, k.instruction_id, k.idempotency_key, k.participant_id, k.created_at INTO own
  FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = $1;
  SELECT k.outbox_id, k.sequence_id, k.created_at INTO other_id, other_no, other_at
  FROM (
    SELECT k.* FROM {cell}.payment_arrived_keys k WHERE k.instruction_id = own.instruction_id OFFSET 0) k
  WHERE k.participant_id = own.participant_id AND k.outbox_id <> own.outbox_id
    AND (k.idempotency_key = own.idempotency_key OR NOT (SELECT s.allow_second_key FROM {cell}.payment_outbox_settings s))
    AND (
      SELECT a.taken_at FROM {cell}.payment_arrivals a
      WHERE a.bucket = k.bucket AND a.version = k.version) IS NOT NULL
  ORDER BY k.created_at, k.outbox_id
  LIMIT 1;
  IF FOUND THEN
    RETURN NEXT;
    RETURN;
  END IF;
  SELECT o.cell INTO cell
  FROM {cell}.payment_cell_changes o
  CROSS JOIN {cell}.payment_outbox_settings g
  WHERE o.bucket = {cell}.cell_bucket(own.participant_id) AND o.settles AND o.cell_id <> here
    -- A call that had read the map before may have waited for its participant's row, and stored the instruction since.
    AND own.created_at <= coalesce((
      SELECT min(h.stored_at) FROM {cell}.payment_cell_changes h
      WHERE h.bucket = o.bucket AND h.version > o.version AND h.cell_id = here), 'infinity')
    AND (own.created_at > o.changed_at - g.repeated_within
      OR EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1)
      OR EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 AND a.created_at >= o.changed_at))
    -- What the other cell has enqueued since has not come here.
    AND NOT EXISTS (
      SELECT FROM {cell}.payment_arrivals a
      WHERE a.bucket = o.bucket AND a.version > o.version AND a.taken_at IS NOT NULL AND NOT EXISTS (
        SELECT FROM {cell}.payment_cell_changes s
        WHERE s.bucket = a.bucket AND s.version > o.version AND s.version <= a.version AND s.settles))
  ORDER BY o.version DESC
  LIMIT 1;
  IF FOUND THEN
    RETURN NEXT;
  END IF;
END
$$;
