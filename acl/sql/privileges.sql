-- Every object of the cell $1, columns included, with each privilege that a role
-- other than its owner holds; an object that no role holds anything on is one row
-- without a grantee. An access list that was never written stands for the
-- built-in default, which for functions and types includes PUBLIC.
WITH space AS (
  SELECT n.oid, n.nspname, quote_ident(n.nspname) AS quoted, n.nspowner, n.nspacl
  FROM pg_catalog.pg_namespace n
  WHERE n.nspname = $1
),
relations AS (
  SELECT
    c.oid, c.relname, c.relowner, c.relkind, c.relispartition, c.relacl,
    s.quoted || '.' || quote_ident(c.relname) AS ident,
    CASE WHEN c.relkind = 'S' THEN 'sequence' WHEN c.relkind IN ('v', 'm') THEN 'view' ELSE 'table' END AS kind
  FROM space s
  JOIN pg_catalog.pg_class c ON c.relnamespace = s.oid
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
),
objects (kind, name, col, ident, owner, partition, row_type, acl) AS (
  SELECT 'schema', '', '', s.quoted, s.nspowner, false, false, coalesce(s.nspacl, acldefault('n', s.nspowner))
  FROM space s
  UNION ALL
  SELECT
    r.kind, r.relname::text, '', r.ident, r.relowner, r.relispartition, false,
    coalesce(r.relacl, acldefault(CASE r.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", r.relowner))
  FROM relations r
  UNION ALL
  SELECT r.kind, r.relname::text, a.attname::text, r.ident, r.relowner, r.relispartition, false, a.attacl
  FROM relations r
  JOIN pg_catalog.pg_attribute a ON a.attrelid = r.oid
  WHERE r.relkind <> 'S' AND NOT a.attisdropped AND (a.attnum > 0 OR a.attacl IS NOT NULL)
  UNION ALL
  SELECT
    'function', p.proname || '(' || args.label || ')', '',
    s.quoted || '.' || quote_ident(p.proname) || '(' || args.sql || ')',
    p.proowner, false, false, coalesce(p.proacl, acldefault('f', p.proowner))
  FROM space s
  JOIN pg_catalog.pg_proc p ON p.pronamespace = s.oid
  CROSS JOIN LATERAL (
    SELECT
      coalesce(string_agg(format_type(t.oid, NULL), ',' ORDER BY t.n), '') AS sql,
      coalesce(string_agg(
        replace(replace(format_type(t.oid, NULL), s.quoted || '.', ''), 'timestamp with time zone', 'timestamptz'),
        ',' ORDER BY t.n), '') AS label
    FROM unnest(p.proargtypes::oid[]) WITH ORDINALITY t (oid, n)
  ) args
  UNION ALL
  -- Types of one's own, and the row types of tables. Arrays follow their element.
  -- The row type of a partition made since is let be while its access list was
  -- never written: default privileges don't reach row types, and partitions are
  -- made while no DBA is near.
  SELECT
    'type', t.typname::text, '', s.quoted || '.' || quote_ident(t.typname), t.typowner,
    coalesce(c.relispartition, false), c.relkind <> 'c',
    coalesce(t.typacl, CASE WHEN NOT coalesce(c.relispartition, false) THEN acldefault('T', t.typowner) END)
  FROM space s
  JOIN pg_catalog.pg_type t ON t.typnamespace = s.oid
  LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
  WHERE t.typtype <> 'm' AND NOT EXISTS (SELECT FROM pg_catalog.pg_type e WHERE e.typarray = t.oid)
)
SELECT DISTINCT
  o.kind, o.name, o.col, o.ident, quote_ident(pg_get_userbyid(o.owner)) AS owner, o.partition,
  coalesce(o.row_type, false) AS row_type,
  CASE WHEN e.grantee = 0 THEN 'PUBLIC' ELSE coalesce(quote_ident(pg_get_userbyid(e.grantee)), '') END AS grantee,
  coalesce(e.privilege_type, '') AS privilege,
  coalesce(e.is_grantable, false) AS grantable
FROM objects o
LEFT JOIN LATERAL (
  SELECT x.grantee, x.privilege_type, x.is_grantable
  FROM aclexplode(o.acl) x
  WHERE x.grantee <> o.owner
) e ON true;
