-- Every attempt on every object of the cell, as statements. $1 is a scratch schema in which every
-- role may create objects; the same transaction creates it and rolls it back.
--
-- No statement reads, writes or calls anything: LIMIT 0, WHERE false and empty copies are
-- sufficient for the server to check the privilege. A function gets columns instead of constants,
-- because a strict function of a null constant is folded to NULL before the check.
WITH relations AS (
  SELECT c.oid, c.relispartition, format('%I.%I', n.nspname, c.relname) AS ident, c.relname::text AS name, c.relkind,
    CASE c.relkind WHEN 'S' THEN 'sequence' WHEN 'v' THEN 'view' WHEN 'm' THEN 'view' ELSE 'table' END AS kind
  FROM pg_catalog.pg_class c
  JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = '{cell}' AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
),
-- All columns of a table; for a partition, whose columns are those of its parent, only the first.
columns AS (
  SELECT r.kind, r.name, r.ident, r.relispartition, a.attname::text AS col, a.attnum
  FROM relations r
  JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE r.kind <> 'sequence' AND (NOT r.relispartition OR a.attnum = 1)
),
functions AS (
  SELECT p.proname || '(' || args.label || ')' AS name, format('%I.%I', n.nspname, p.proname) AS ident, args.given,
    args.passed
  FROM pg_catalog.pg_proc p
  JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
  CROSS JOIN LATERAL (
    SELECT
      coalesce(string_agg(replace(replace(format_type(t.oid, NULL), quote_ident(n.nspname) || '.', ''),
        'timestamp with time zone', 'timestamptz'), ',' ORDER BY t.n), '') AS label,
      coalesce(string_agg(format('NULL::%s AS a%s', format_type(t.oid, NULL), t.n), ', ' ORDER BY t.n),
        '1 AS nothing') AS given,
      coalesce(string_agg(format('x.a%s', t.n), ', ' ORDER BY t.n), '') AS passed
    FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY t (oid, n)
  ) args
  WHERE n.nspname = '{cell}' AND p.prokind = 'f'
),
referred AS (
  SELECT r.name, r.ident,
    string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY k.place) AS definition,
    string_agg(quote_ident(a.attname), ', ' ORDER BY k.place) AS columns
  FROM relations r
  JOIN LATERAL (
    SELECT x.indkey::smallint[] AS attnums FROM pg_catalog.pg_index x
    WHERE x.indrelid = r.oid AND x.indisunique AND x.indpred IS NULL ORDER BY x.indisprimary DESC, x.indexrelid
      LIMIT 1) u ON true
  CROSS JOIN LATERAL unnest(u.attnums) WITH ORDINALITY k (attnum, place)
  JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid AND a.attnum = k.attnum
  WHERE r.relkind IN ('r', 'p')
  GROUP BY r.name, r.ident
),
attempts (verb, kind, name, col, statement) AS (
  SELECT 'SELECT', r.kind, r.name, '', format('SELECT FROM %s LIMIT 0', r.ident) FROM relations r
  UNION ALL
  SELECT 'SELECT', c.kind, c.name, c.col, format('SELECT %I FROM %s LIMIT 0', c.col, c.ident) FROM columns c
  UNION ALL
  SELECT 'INSERT', c.kind, c.name, c.col, format('INSERT INTO %s (%I) SELECT NULL WHERE false', c.ident, c.col)
    FROM columns c
  UNION ALL
  SELECT 'UPDATE', c.kind, c.name, c.col, format('UPDATE %s SET %I = NULL WHERE false', c.ident, c.col) FROM columns c
  UNION ALL
  SELECT 'DELETE', r.kind, r.name, '', format('DELETE FROM %s WHERE false', r.ident) FROM relations r
    WHERE r.kind <> 'sequence'
  UNION ALL
  SELECT 'TRUNCATE', r.kind, r.name, '', format('TRUNCATE %s', r.ident) FROM relations r WHERE r.kind <> 'sequence'
  UNION ALL
  SELECT 'REFERENCES', 'table', r.name, '', format('CREATE TABLE %I.referrer (%s, FOREIGN KEY (%s) REFERENCES %s (%s))',
    $1::text, r.definition, r.columns, r.ident, r.columns)
  FROM referred r
  UNION ALL
  SELECT 'TRIGGER', r.kind, r.name, '',
    format('CREATE TRIGGER railhead_prove BEFORE INSERT ON %s FOR EACH STATEMENT EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger()', r.ident)
  FROM relations r WHERE r.kind <> 'sequence'
  UNION ALL
  SELECT 'LOCK', r.kind, r.name, '', format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE NOWAIT', r.ident) FROM relations r
    WHERE r.kind <> 'sequence'
  UNION ALL
  SELECT 'COPY TO', r.kind, r.name, '', format('COPY (SELECT * FROM %s LIMIT 0) TO STDOUT', r.ident) FROM relations r
    WHERE r.kind <> 'sequence'
  UNION ALL
  SELECT 'COPY FROM', c.kind, c.name, c.col, format('COPY %s (%I) FROM STDIN', c.ident, c.col) FROM columns c
    WHERE c.attnum = 1
  UNION ALL
  SELECT 'USAGE', r.kind, r.name, '', format('SELECT nextval(%L)', r.ident) FROM relations r WHERE r.kind = 'sequence'
  UNION ALL
  SELECT 'EXECUTE', 'function', f.name, '', format('SELECT %s(%s) FROM (SELECT %s OFFSET 0) x WHERE false', f.ident,
    f.passed, f.given) FROM functions f
  UNION ALL
  SELECT 'CREATE', 'schema', '{cell}', '', 'CREATE TABLE {cell}.railhead_prove ()'
  UNION ALL
  SELECT 'CREATE', 'schema', '{cell}', '',
    'CREATE FUNCTION {cell}.railhead_prove() RETURNS integer LANGUAGE sql AS ''SELECT 1'''
  UNION ALL
  SELECT 'CREATE', 'schema', 'public', '', 'CREATE TABLE public.railhead_prove ()'
    WHERE to_regnamespace('public') IS NOT NULL
  UNION ALL
  SELECT 'CREATE', 'database', current_database(), '', 'CREATE SCHEMA railhead_prove'
)
SELECT a.verb, a.kind, a.name, a.col, a.statement, coalesce(r.relispartition, false) AS partition
FROM attempts a
LEFT JOIN relations r ON r.name = a.name AND r.kind = a.kind
ORDER BY a.kind, a.name, a.verb, a.col, a.statement
