-- moved_digest(bucket integer, version integer, arrived boolean)
--   -> (participants integer, keys bigint, digest text)
--   SHA-256, in hexadecimal, over the participants of a move of a bucket, each with its next number and all
--   of its keys: as they are packed here, or, with arrived, as they were stored here from another cell.
--   Both are the same if and only if everything has arrived. It reads each key once, whatever the statistics
--   are. The proof carried-keys computes it, too.
-- reads:   payment_packed_participants and what moved_keys reads, or payment_arrived_participants and
--          payment_arrived_keys.   writes, locks: nothing.
-- called by: pack_bucket, complete_arrival.
CREATE OR REPLACE FUNCTION {cell}.moved_digest(bucket integer, version integer, arrived boolean,
  OUT participants integer, OUT keys bigint, OUT digest text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH key AS (
    SELECT k.owner, k.sequence_id, k.outbox_id, k.created_at, k.instruction_id, k.idempotency_key, k.fingerprint
    FROM (
      SELECT p.participant_id FROM {cell}.payment_packed_participants p
      WHERE NOT $3 AND p.bucket = $1 AND p.version = $2 OFFSET 0) p
    CROSS JOIN LATERAL {cell}.moved_keys(p.participant_id) k
    UNION ALL
    SELECT a.participant_id, a.sequence_id, a.outbox_id, a.created_at, a.instruction_id, a.idempotency_key,
      a.fingerprint
    FROM {cell}.payment_arrived_keys a
    WHERE $3 AND a.bucket = $1 AND a.version = $2
  ),
  part AS (
    SELECT p.participant_id, p.next_sequence_id, 0 AS n, NULL::bytea AS prints
    FROM {cell}.payment_packed_participants p
    WHERE NOT $3 AND p.bucket = $1 AND p.version = $2
    UNION ALL
    SELECT p.participant_id, p.next_sequence_id, 0, NULL
    FROM {cell}.payment_arrived_participants p
    WHERE $3 AND p.bucket = $1 AND p.version = $2
    UNION ALL
    SELECT k.owner, NULL, count(*), string_agg(sha256(convert_to(jsonb_build_array(k.owner, k.sequence_id, k.outbox_id,
      (extract(epoch FROM k.created_at) * 1000000)::bigint, k.instruction_id, k.idempotency_key,
      encode(k.fingerprint, 'hex'))::text, 'UTF8')), ''::bytea ORDER BY k.sequence_id, k.outbox_id)
    FROM key k
    GROUP BY k.owner
  ),
  one AS (
    SELECT p.participant_id, sum(p.n) AS n,
      sha256(convert_to(jsonb_build_array(p.participant_id, max(p.next_sequence_id))::text, 'UTF8')
        || coalesce(string_agg(p.prints, ''::bytea), ''::bytea)) AS print, count(p.next_sequence_id) AS known
    FROM part p
    GROUP BY p.participant_id
  )
  SELECT coalesce(sum(o.known), 0)::integer, coalesce(sum(o.n), 0)::bigint,
    encode(sha256(coalesce(string_agg(o.print, ''::bytea ORDER BY o.participant_id), ''::bytea)), 'hex')
  FROM one o
$$;
