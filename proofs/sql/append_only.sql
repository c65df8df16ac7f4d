-- Every attempt to change an append-only table, and to empty any other one, as statements. Each
-- partition is named separately. WHERE false is sufficient: the triggers fire once for the
-- statement.
WITH relations AS (
  SELECT c.oid, c.relname::text AS name, format('%I.%I', n.nspname, c.relname) AS ident,
    coalesce(p.relname::text, c.relname::text) AS stands_for
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
  LEFT JOIN pg_catalog.pg_class p ON p.oid = i.inhparent
  WHERE n.nspname = '{cell}' AND c.relkind IN ('r', 'p')
),
kept AS (
  SELECT r.*, (SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = r.oid AND a.attnum = 1) AS col
  FROM relations r
  WHERE r.stands_for IN ('payment_outbox_attempts', 'payment_outbox_instructions', 'payment_outbox_keys',
    'payment_operator_log', 'payment_rail_profiles', 'payment_accepted_timelines', 'payment_api_calls',
    'payment_outbox_contradictions', 'payment_cells', 'payment_cell_changes', 'payment_cell_checks',
    'payment_retired_references')
)
SELECT 'UPDATE' AS verb, 'table' AS kind, k.name, '' AS col, format('UPDATE %s SET %I = %I WHERE false', k.ident, k.col,
  k.col) AS statement, false AS partition FROM kept k
UNION ALL
SELECT 'DELETE', 'table', k.name, '', format('DELETE FROM %s WHERE false', k.ident), false FROM kept k
UNION ALL
SELECT 'TRUNCATE', 'table', r.name, '', format('TRUNCATE %s CASCADE', r.ident), false
FROM relations r
WHERE r.stands_for IN (
  'payment_outbox_attempts', 'payment_outbox_instructions', 'payment_outbox_keys', 'payment_operator_log',
    'payment_rail_profiles', 'payment_accepted_timelines', 'payment_api_calls', 'payment_outbox_contradictions',
    'payment_cells', 'payment_cell_changes', 'payment_cell_checks', 'payment_retired_references', 'payment_buckets',
  'payment_outbox_pending', 'participant_outbox_sequences', 'payment_outbox_claims', 'payment_dead_letters')
ORDER BY 3, 1
