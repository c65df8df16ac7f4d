-- Keys that came from other cells with their participants. They must be those that were packed there: their
-- SHA-256, computed here again, is the one with which the bucket was given, unless no cell was left that knew of
-- that gift, and an operator has settled that this cell takes the bucket. The number that a
-- participant had next, which is part of it, was one after its last key. No pair of keys of a participant
-- may stand for one payment here and another one there, unless an operator has settled between the two that another
-- cell takes the bucket, which carries no keys: that is a note.
WITH taken AS (
  SELECT a.bucket, a.version, a.digest FROM {cell}.payment_arrivals a WHERE a.taken_at IS NOT NULL
),
participants AS (
  SELECT t.bucket, t.version, k.participant_id, count(*) AS n,
    sha256(convert_to(jsonb_build_array(k.participant_id, max(k.sequence_id) + 1)::text, 'UTF8')
      || string_agg(sha256(convert_to(jsonb_build_array(k.participant_id, k.sequence_id, k.outbox_id,
        (extract(epoch FROM k.created_at) * 1000000)::bigint, k.instruction_id, k.idempotency_key,
        encode(k.fingerprint, 'hex'))::text, 'UTF8')), ''::bytea ORDER BY k.sequence_id, k.outbox_id)) AS print
  FROM taken t
  JOIN {cell}.payment_arrived_keys k ON k.bucket = t.bucket AND k.version = t.version
  GROUP BY t.bucket, t.version, k.participant_id
),
moves AS (
  SELECT t.bucket, t.version, t.digest, coalesce(sum(p.n), 0) AS n,
    encode(sha256(coalesce(string_agg(p.print, ''::bytea ORDER BY p.participant_id), ''::bytea)), 'hex') AS found
  FROM taken t
  LEFT JOIN participants p ON p.bucket = t.bucket AND p.version = t.version
  GROUP BY t.bucket, t.version, t.digest
)
SELECT 'seen' AS what, format('%s buckets, and %s keys that came with %s of them',
  (SELECT count(*) FROM {cell}.payment_buckets), coalesce(sum(m.n), 0), count(*)) AS line,
  (SELECT count(*) FROM {cell}.payment_buckets) + coalesce(sum(m.n), 0)::bigint AS n
FROM moves m
UNION ALL
SELECT 'offence', format('bucket %s, version %s: its keys are not those that were packed in the cell from which it came',
  m.bucket, m.version), 1
FROM moves m
WHERE m.found <> m.digest OR NOT CASE WHEN EXISTS (
    SELECT FROM {cell}.payment_cell_changes c
    WHERE c.bucket = m.bucket AND c.version = m.version AND NOT c.settles)
  THEN EXISTS (
    SELECT FROM {cell}.payment_cell_changes c
    WHERE c.bucket = m.bucket AND c.version = m.version AND c.digest = m.digest)
  ELSE EXISTS (
    SELECT FROM {cell}.payment_cell_changes c
    JOIN {cell}.payment_cells h ON h.cell_id = c.cell_id AND h.here
    WHERE c.bucket = m.bucket AND c.version >= m.version AND c.settles) END
UNION ALL
SELECT 'offence', format('bucket %s is taken here, and the keys that were packed with it are not', b.bucket), 1
FROM {cell}.payment_buckets b
JOIN {cell}.payment_cell_changes c ON c.bucket = b.bucket AND c.version = b.version AND c.digest <> ''
WHERE b.mine AND NOT EXISTS (SELECT FROM taken t WHERE t.bucket = b.bucket AND t.version = b.version)
UNION ALL
SELECT CASE WHEN EXISTS (
    SELECT FROM {cell}.payment_cell_changes s
    WHERE s.bucket = k.bucket AND s.settles AND NOT EXISTS ( -- a gift since then carries its keys
      SELECT FROM {cell}.payment_cell_changes m
      WHERE m.bucket = s.bucket AND m.version > s.version AND NOT m.settles
        AND m.changed_at < greatest(o.created_at, k.created_at)) AND CASE
      WHEN s.cell_id = (SELECT h.cell_id FROM {cell}.payment_cells h WHERE h.here)
        THEN o.created_at >= s.stored_at - interval '1 minute'
      ELSE o.created_at <= s.stored_at AND k.created_at >= s.changed_at - interval '1 minute' END)
  THEN 'note' ELSE 'offence' END,
  format('instruction %s, key %s: outbox_id %s here, and %s in another cell', k.instruction_id,
  k.idempotency_key, o.outbox_id, k.outbox_id), 1
FROM taken t
JOIN {cell}.payment_arrived_keys k ON k.bucket = t.bucket AND k.version = t.version
JOIN {cell}.payment_outbox_keys o
  ON o.instruction_id = k.instruction_id AND o.idempotency_key = k.idempotency_key AND o.outbox_id <> k.outbox_id
    AND o.participant_id = k.participant_id
ORDER BY 1, 2
