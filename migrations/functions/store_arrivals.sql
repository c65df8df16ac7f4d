-- store_arrivals(bucket integer, version integer, digest text, participants jsonb, keys jsonb) -> void
--   Stores participants and keys of a bucket that another cell has packed, as packed_participants and
--   packed_keys give them. What is there already stays as it is.
-- errors:  RH020 another packing of the version has begun to arrive, or this one is in force; 55P03 after 5 s
--          of waiting for a lock.
-- reads:   payment_arrivals.   writes: payment_arrived_participants, payment_arrived_keys.
-- locks:   the row of payment_arrivals.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.store_arrivals(bucket integer, version integer, digest text, participants jsonb,
  keys jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM {cell}.require_durable_map();
  PERFORM FROM {cell}.payment_arrivals a
  WHERE a.bucket = $1 AND a.version = $2 AND a.digest = $3 COLLATE "C" AND a.complete_at IS NULL
  FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell expects other participants of bucket %s, or has taken them', $1),
      HINT = 'Repeat railhead cell move.';
  END IF;
  INSERT INTO {cell}.payment_arrived_participants (bucket, version, participant_id, next_sequence_id)
  SELECT $1, $2, p.participant_id, p.next_sequence_id
  FROM jsonb_to_recordset($4) AS p(participant_id text, next_sequence_id bigint)
  ON CONFLICT DO NOTHING;
  INSERT INTO {cell}.payment_arrived_keys (bucket, version, outbox_id, sequence_id, created_at, participant_id,
    instruction_id, idempotency_key, fingerprint)
  SELECT $1, $2, k.outbox_id, k.sequence_id, k.created_at, k.participant_id, k.instruction_id, k.idempotency_key,
    decode(k.fingerprint, 'hex')
  FROM jsonb_to_recordset($5) AS k(outbox_id uuid, sequence_id bigint, created_at timestamptz, participant_id text,
    instruction_id text, idempotency_key text, fingerprint text)
  ON CONFLICT DO NOTHING;
END
$$;
