-- moved_keys(participant_id text, after_no bigint, after_id uuid, most bigint)
--   -> (owner text, sequence_id bigint, outbox_id uuid, created_at timestamptz, instruction_id text,
--       idempotency_key text, fingerprint bytea)
--   The next keys of a participant by which this cell answers repeated calls, at most most of them: those that
--   were enqueued here, and those that it has carried over from other cells and that are in force. In the order
--   of number and id.
-- reads:   payment_outbox_keys, payment_arrived_keys, payment_arrivals.   writes, locks: nothing.
-- called by: moved_digest, packed_keys.
CREATE OR REPLACE FUNCTION {cell}.moved_keys(participant_id text, after_no bigint DEFAULT -1,
  after_id uuid DEFAULT '00000000-0000-0000-0000-000000000000', most bigint DEFAULT NULL)
RETURNS TABLE (owner text, sequence_id bigint, outbox_id uuid, created_at timestamptz, instruction_id text,
  idempotency_key text, fingerprint bytea)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  (SELECT k.participant_id, k.sequence_id, k.outbox_id, k.created_at, k.instruction_id, k.idempotency_key, k.fingerprint
  FROM {cell}.payment_outbox_keys k
  WHERE k.participant_id = $1 COLLATE "C" AND k.sequence_id >= $2 AND (k.sequence_id, k.outbox_id) > ($2, $3)
  ORDER BY k.participant_id, k.sequence_id, k.outbox_id
  LIMIT $4)
  UNION
  (SELECT DISTINCT k.participant_id, k.sequence_id, k.outbox_id, k.created_at, k.instruction_id, k.idempotency_key,
    k.fingerprint
  FROM {cell}.payment_arrived_keys k
  WHERE k.participant_id = $1 COLLATE "C" AND k.sequence_id >= $2 AND (k.sequence_id, k.outbox_id) > ($2, $3)
    AND (
      SELECT a.taken_at FROM {cell}.payment_arrivals a
      WHERE a.bucket = k.bucket AND a.version = k.version) IS NOT NULL
  ORDER BY k.participant_id, k.sequence_id, k.outbox_id
  LIMIT $4)
  ORDER BY 2, 3
  LIMIT $4;
END
$$;
