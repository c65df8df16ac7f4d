-- The schema of a cell as lines of text, from the catalogs, so that servers of
-- different versions can be compared. Partitions are left out: which of them
-- exist depends on the day. $1 cell
WITH cell AS (
  SELECT n.oid FROM pg_namespace n WHERE n.nspname = $1
),
relation AS (
  SELECT c.oid, c.relname, c.relkind, c.reloptions
  FROM pg_class c
  JOIN cell ON cell.oid = c.relnamespace
  WHERE NOT c.relispartition AND c.relname NOT LIKE 'schema_migrations%'
),
line(section, object, place, line) AS (
  SELECT 1, t.typname::text, 0::bigint, format('type %s enum (%s)', t.typname, string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder))
  FROM pg_type t
  JOIN cell ON cell.oid = t.typnamespace
  JOIN pg_enum e ON e.enumtypid = t.oid
  GROUP BY t.typname
  UNION ALL
  SELECT 2, r.relname, 0,
    CASE r.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view' WHEN 'c' THEN 'composite type' ELSE r.relkind::text END
      || ' ' || r.relname || coalesce(' with (' || array_to_string(r.reloptions, ', ') || ')', '')
      || coalesce(' partition by ' || pg_get_partkeydef(r.oid), '')
  FROM relation r
  WHERE r.relkind IN ('r', 'p', 'v', 'c')
  UNION ALL
  SELECT 2, r.relname, a.attnum,
    format('  column %s %s%s%s%s', a.attname, format_type(a.atttypid, a.atttypmod),
      CASE WHEN a.attcollation = t.typcollation THEN '' ELSE ' collate ' || a.attcollation::regcollation END,
      CASE WHEN a.attnotnull THEN ' not null' ELSE '' END,
      coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), ''))
  FROM relation r
  JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
  WHERE r.relkind IN ('r', 'p', 'v', 'c')
  UNION ALL
  SELECT 2, r.relname, 10000 + row_number() OVER (ORDER BY k.conname), format('  constraint %s %s', k.conname, pg_get_constraintdef(k.oid))
  FROM relation r
  JOIN pg_constraint k ON k.conrelid = r.oid AND k.contype IN ('p', 'u', 'f', 'c', 'x')
  UNION ALL
  SELECT 2, r.relname, 20000 + row_number() OVER (ORDER BY i.indexrelid::regclass::text COLLATE "C"), '  index ' || pg_get_indexdef(i.indexrelid)
  FROM relation r
  JOIN pg_index i ON i.indrelid = r.oid
  WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid)
  UNION ALL
  SELECT 2, r.relname, 30000 + row_number() OVER (ORDER BY g.tgname), format('  trigger %s %s', g.tgenabled, pg_get_triggerdef(g.oid))
  FROM relation r
  JOIN pg_trigger g ON g.tgrelid = r.oid AND NOT g.tgisinternal
  UNION ALL
  SELECT 3, p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', 0,
    format('function %s(%s) returns %s, %s%s%s, body %s', p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
      CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
      CASE WHEN p.prosecdef THEN ', security definer' ELSE '' END,
      -- From version 18 on its body is the server's own, and needs no path.
      CASE WHEN p.proname = 'uuidv7' THEN '' ELSE coalesce(', set ' || array_to_string(p.proconfig, '; '), '') END,
      CASE WHEN p.proname = 'uuidv7' THEN 'by version' ELSE md5(p.prosrc) END)
  FROM pg_proc p
  JOIN cell ON cell.oid = p.pronamespace
)
SELECT l.line FROM line l ORDER BY l.section, l.object COLLATE "C", l.place
