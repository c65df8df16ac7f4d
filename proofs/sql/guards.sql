-- The indexes and checks on which the guarantees depend: they must exist, be unique, immediate and
-- complete on every partition, and be on tables that survive a crash. Text is stored and sorted by
-- its bytes (COLLATE "C"). With a collation of the C library or of ICU, an update of that library
-- could make an index miss rows.
WITH tables AS (
  SELECT c.oid, c.relname::text AS name, c.relpersistence, coalesce(p.relname::text, c.relname::text) AS stands_for
  FROM pg_catalog.pg_class c
  LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
  LEFT JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
  WHERE c.relnamespace = to_regnamespace('{cell}') AND c.relkind IN ('r', 'p')
),
wanted (stands_for, columns, predicate, because) AS (
  VALUES
    ('payment_outbox_attempts', 'outbox_id, attempt_no', '', 'fencing: the writer that appends next owns what follows'),
    ('payment_outbox_attempts', 'outbox_id', '(state = ''DISPATCHED''', 'at most one execution is recorded'),
    ('payment_outbox_keys', 'outbox_id', '', 'an instruction has one registry row'),
    ('payment_outbox_keys', 'instruction_id, idempotency_key', '', 'one key makes one instruction'),
    ('payment_outbox_keys', 'participant_id, sequence_id', '', 'a number is allocated once'),
    ('payment_outbox_keys', 'rail_key', '', 'a rail key stands for one instruction'),
    ('payment_outbox_pending', 'outbox_id', '', 'an instruction is in pending once'),
    ('payment_outbox_instructions', 'outbox_id', '', 'an instruction has one row'),
    ('participant_outbox_sequences', 'participant_id', '', 'a participant has one counter'),
    ('payment_outbox_claims', 'claim_id', '', 'a claim has one row'),
    ('payment_dead_letters', 'outbox_id', '', 'an instruction has one dead letter'),
    ('payment_rail_profiles', 'rail_type, version', '', 'a version of a profile has one row'),
    ('payment_cell_changes', 'bucket, version', '', 'a version of a bucket names one cell'),
    ('payment_buckets', 'bucket', '', 'a bucket has one cell')
),
live AS (
  SELECT x.indrelid,
    (SELECT string_agg(a.attname, ', ' ORDER BY k.place)
     FROM unnest(x.indkey::smallint[]) WITH ORDINALITY k (attnum, place)
     JOIN pg_catalog.pg_attribute a ON a.attrelid = x.indrelid AND a.attnum = k.attnum
     WHERE k.place <= x.indnkeyatts) AS columns,
    coalesce(pg_get_expr(x.indpred, x.indrelid), '') AS predicate
  FROM pg_catalog.pg_index x
  WHERE x.indisunique AND x.indimmediate AND x.indisvalid AND x.indisready AND x.indislive AND x.indexprs IS NULL
),
checks (stands_for, name) AS (
  VALUES
    ('payment_outbox_attempts', 'payment_outbox_attempts_number'),
    ('payment_outbox_attempts', 'payment_outbox_attempts_time'),
    ('payment_outbox_attempts', 'payment_outbox_attempts_claim'),
    ('payment_outbox_attempts', 'payment_outbox_attempts_complete'),
    ('payment_outbox_attempts', 'payment_outbox_attempts_answers'),
    ('payment_outbox_attempts', 'payment_outbox_attempts_no_false_failed'),
    ('payment_outbox_instructions', 'payment_outbox_instructions_time'),
    ('payment_outbox_keys', 'payment_outbox_keys_fingerprint_sha256'),
    ('payment_outbox_pending', 'payment_outbox_pending_valid'),
    ('payment_outbox_settings', 'payment_outbox_settings_budget')
)
SELECT 'seen' AS what, format('%s unique indexes and %s checks wanted on %s tables', (SELECT count(*) FROM wanted),
  (SELECT count(*) FROM checks), count(*)) AS line,
  count(*) AS n
FROM tables
UNION ALL
SELECT 'offence', format('%s has no valid unique index on (%s)%s: %s', t.name, w.columns,
  CASE WHEN w.predicate = '' THEN '' ELSE ' of DISPATCHED rows' END, w.because), 1
FROM wanted w
JOIN tables t ON t.stands_for = w.stands_for
WHERE NOT EXISTS (
  SELECT FROM live l
  WHERE l.indrelid = t.oid AND l.columns = w.columns
    AND CASE WHEN w.predicate = '' THEN l.predicate = '' ELSE starts_with(l.predicate, w.predicate) END)
UNION ALL
SELECT 'offence', format('%s has no validated check %s', t.name, c.name), 1
FROM checks c
JOIN tables t ON t.stands_for = c.stands_for
WHERE NOT EXISTS (
  SELECT FROM pg_catalog.pg_constraint k
  WHERE k.conrelid = t.oid AND k.conname = c.name AND k.contype = 'c' AND k.convalidated)
UNION ALL
SELECT 'offence',
  format('index %s of %s sorts by collation %s, not "C": after an update of the server''s libraries it can miss existing rows',
  x.indexrelid::regclass, t.name, string_agg(DISTINCT o.id::regcollation::text, ', ')), 1
FROM tables t
JOIN pg_catalog.pg_index x ON x.indrelid = t.oid
CROSS JOIN LATERAL unnest(x.indcollation::oid[]) AS o (id)
WHERE o.id NOT IN (0, 'pg_catalog."C"'::regcollation)
GROUP BY x.indexrelid, t.name
UNION ALL
SELECT 'offence', format('column %s of %s has collation %s, not "C"', a.attname, t.name, a.attcollation::regcollation),
  1
FROM tables t
JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE a.attcollation NOT IN (0, 'pg_catalog."C"'::regcollation)
UNION ALL
SELECT 'offence', format('%s is not logged: a crash empties it', t.name), 1 FROM tables t WHERE t.relpersistence <> 'p'
UNION ALL
SELECT 'offence', format('constraint %s of %s is not validated', k.conname, t.name), 1
FROM tables t JOIN pg_catalog.pg_constraint k ON k.conrelid = t.oid
WHERE NOT k.convalidated
UNION ALL
SELECT 'offence', format('%s has no DEFAULT partition', d.parent), 1
FROM (VALUES ('payment_outbox_attempts'), ('payment_outbox_instructions')) d (parent)
WHERE NOT EXISTS (
  SELECT FROM pg_catalog.pg_partitioned_table p
  WHERE p.partrelid = to_regclass('{cell}.' || d.parent) AND p.partdefid <> 0)
UNION ALL
SELECT 'offence', 'payment_outbox_rules, which every enqueue reads, differs from the tables from which it is made', 1
WHERE NOT EXISTS (
  SELECT FROM {cell}.payment_outbox_rules r
  JOIN {cell}.payment_outbox_settings s ON s.singleton
  WHERE (r.allow_second_key, r.rail_key_namespace, r.payload_bytes_max, r.headers_bytes_max, r.payload_depth_max,
    r.refuse_card_numbers)
      = (s.allow_second_key, s.rail_key_namespace, s.payload_bytes_max, s.headers_bytes_max, s.payload_depth_max,
        s.refuse_card_numbers)
    AND r.rail_types = ARRAY(SELECT p.rail_type FROM {cell}.payment_rails p WHERE p.profile_version IS NOT NULL
      ORDER BY p.rail_type)
    AND r.forbidden = ARRAY(
      SELECT '%' || regexp_replace(f.key, '([\\%_])', '\\\1', 'g') || '":%' FROM {cell}.payment_forbidden_keys f
        ORDER BY f.key)
    AND r.required = (
      SELECT coalesce(jsonb_object_agg(n.rail_type, n.paths), '{}')
      FROM (
        SELECT l.rail_type, jsonb_agg(DISTINCT f.path COLLATE "C" ORDER BY f.path COLLATE "C") AS paths
        FROM {cell}.payment_rails l
        JOIN {cell}.payment_rail_profiles p ON p.rail_type = l.rail_type AND p.version = l.profile_version
        CROSS JOIN LATERAL (
          SELECT e.value ->> 'field' AS path
          FROM jsonb_array_elements(CASE jsonb_typeof(p.profile #> '{checks,fields}') WHEN 'array'
            THEN p.profile #> '{checks,fields}' ELSE '[]' END) AS e
          WHERE e.value -> 'optional' IS DISTINCT FROM 'true'
          UNION ALL
          SELECT e.value
          FROM jsonb_array_elements_text(CASE jsonb_typeof(p.profile #> '{checks,required}') WHEN 'array'
            THEN p.profile #> '{checks,required}' ELSE '[]' END) AS e) f
        WHERE f.path <> ''
        GROUP BY l.rail_type) n)
    AND r.digits = (SELECT jsonb_object_agg(c.code, c.exponent) FROM {cell}.payment_currencies c)
    AND r.closed_gates IS NOT DISTINCT FROM (
      SELECT array_agg(left(encode(sha256(convert_to(concat(g.scope, chr(31), g.name), 'UTF8')), 'hex'), 32)::uuid
        ORDER BY g.scope, g.name)
      FROM {cell}.payment_closed_gates g)
    AND r.own_buckets IS NOT DISTINCT FROM (
      SELECT string_agg((b.mine AND b.leaving IS DISTINCT FROM b.version + 1)::integer::text, '' ORDER BY b.bucket)::bit(1024)
      FROM {cell}.payment_buckets b
      HAVING EXISTS (SELECT FROM {cell}.payment_cells))
    AND (r.confirmed_start IS NULL OR EXISTS (
      SELECT FROM {cell}.payment_cell_checks k
      WHERE k.server_started_at = r.confirmed_start AND k.went_back = (
        SELECT count(*)
        FROM {cell}.payment_outbox_suspensions u
        WHERE u.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND u.server_started_at = r.confirmed_start))))
UNION ALL
SELECT 'offence', format('bucket %s: payment_buckets, by which a new participant is taken, has cell %s, and payment_cell_changes %s',
  n.bucket, coalesce(b.cell, 'none'), coalesce(k.cell, 'none')), 1
FROM generate_series(0, 1023) AS n (bucket)
LEFT JOIN {cell}.payment_buckets b ON b.bucket = n.bucket
LEFT JOIN LATERAL (
  SELECT k.cell, k.cell_id, k.version FROM {cell}.payment_cell_changes k
  WHERE k.bucket = n.bucket
  ORDER BY k.version DESC
  LIMIT 1) k ON true
LEFT JOIN {cell}.payment_cells h ON h.here
WHERE b.bucket IS NULL OR (b.cell, b.version) IS DISTINCT FROM (k.cell, coalesce(k.version, 0))
  OR b.mine AND NOT (h.cell_id IS NULL OR k.cell_id IS NOT DISTINCT FROM h.cell_id AND NOT b.contradicted)
  OR h.cell_id IS NULL AND NOT b.mine
UNION ALL
SELECT 'offence', format('%s pending payments are of participants of bucket %s, which is another cell''s, or was until this cell takes it again: that one may have the same keys',
  count(*), b.bucket), count(*)
FROM {cell}.payment_outbox_pending p
JOIN {cell}.payment_buckets b
  ON b.bucket = ('x' || left(encode(sha256(convert_to(p.participant_id, 'UTF8')), 'hex'), 3))::bit(12)::integer >> 2
WHERE NOT b.mine AND (b.contradicted OR b.cell IS DISTINCT FROM (SELECT c.name FROM {cell}.payment_cells c WHERE c.here)
    OR EXISTS (
      SELECT FROM {cell}.payment_cell_changes o
      JOIN {cell}.payment_cells h ON h.here AND h.cell_id <> o.cell_id
      WHERE o.bucket = b.bucket))
  AND NOT EXISTS (
    SELECT FROM {cell}.payment_packed_participants m
    JOIN {cell}.payment_bucket_moves v ON v.bucket = m.bucket AND v.version = m.version
    JOIN {cell}.payment_cell_changes c ON c.bucket = m.bucket AND c.version = m.version AND c.digest = v.digest
    JOIN {cell}.payment_outbox_keys k ON k.outbox_id = p.outbox_id AND k.created_at <= v.packed_at
    WHERE m.participant_id = p.participant_id AND NOT EXISTS (
      SELECT FROM {cell}.payment_cell_changes s
      WHERE s.bucket = m.bucket AND s.version >= m.version AND s.settles))
GROUP BY b.bucket
UNION ALL
SELECT 'offence',
  format('a call of rail %s (profile version %s) can outlive its claim: start_within + the call + record_within + drain is %s ms, claim_timeout is %s ms',
  p.rail_type, p.version,
  trim_scale({cell}.call_budget_ms(p.profile) + s.start_within_ms + s.record_within_ms + s.drain_ms),
  s.claim_timeout_ms), 1
FROM {cell}.payment_outbox_settings s
JOIN {cell}.payment_rails r ON true
JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
WHERE {cell}.call_budget_ms(p.profile) + s.start_within_ms + s.record_within_ms + s.drain_ms >= s.claim_timeout_ms
ORDER BY 1, 2
