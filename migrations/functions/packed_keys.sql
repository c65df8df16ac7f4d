-- packed_keys(bucket integer, version integer, after text, after_no bigint, after_id uuid, most integer) -> jsonb
--   The next keys of the participants of a packed bucket, in the order of participant, number and id, after
--   the given ones: an array of objects, empty at the end. Who reads their fingerprints, and knows all of a
--   payload but an account, finds that by trying: only a transaction that has written nothing gets them, so
--   that the operator log has who packed the bucket, and why.
-- errors:  RH020 the transaction has written something; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_packed_participants, and what moved_keys reads.   writes, locks: nothing.
-- called by: operator.
CREATE OR REPLACE FUNCTION {cell}.packed_keys(bucket integer, version integer, after text, after_no bigint,
  after_id uuid, most integer) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  most  CONSTANT integer := least($6, 10000);
  parts jsonb[] := '{}'; -- the keys of each participant
  part  jsonb;
  n     integer := 0;
  one   text COLLATE "C";
BEGIN
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the transaction has written something: it could still take back the row of the operator log',
      HINT = 'Commit pack_bucket first, then call packed_keys in a transaction of its own.';
  END IF;
  FOR one IN
    SELECT p.participant_id FROM {cell}.payment_packed_participants p
    WHERE p.bucket = $1 AND p.version = $2 AND p.participant_id >= $3 COLLATE "C"
    ORDER BY p.participant_id
  LOOP
    SELECT coalesce(jsonb_agg(jsonb_build_object('participant_id', k.owner, 'sequence_id', k.sequence_id,
      'outbox_id', k.outbox_id, 'created_at', k.created_at, 'instruction_id', k.instruction_id,
      'idempotency_key', k.idempotency_key, 'fingerprint', encode(k.fingerprint, 'hex'))
      ORDER BY k.sequence_id, k.outbox_id), '[]') INTO part
    FROM {cell}.moved_keys(one, CASE WHEN one = $3 COLLATE "C" THEN $4 ELSE -1 END, $5, most - n) k;
    parts := parts || part;
    n := n + jsonb_array_length(part);
    EXIT WHEN n >= most;
  END LOOP;
  RETURN (
    SELECT coalesce(jsonb_agg(k.key ORDER BY p.place, k.place), '[]')
    FROM unnest(parts) WITH ORDINALITY AS p(keys, place)
    CROSS JOIN LATERAL jsonb_array_elements(p.keys) WITH ORDINALITY AS k(key, place));
END
$$;
