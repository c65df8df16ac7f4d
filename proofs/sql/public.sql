-- The privileges of PUBLIC in the cell, and the places in which any role could create an object. A
-- null access list stands for the built-in default. Row types of partitions are left out: default
-- privileges do not apply to them.
WITH space AS (
  SELECT n.oid, n.nspowner, n.nspacl FROM pg_catalog.pg_namespace n WHERE n.nspname = '{cell}'
),
objects (name, acl) AS (
  SELECT 'schema {cell}', coalesce(s.nspacl, acldefault('n', s.nspowner)) FROM space s
  UNION ALL
  SELECT 'relation ' || c.relname,
    coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's' ELSE 'r' END::"char", c.relowner))
  FROM space s JOIN pg_catalog.pg_class c ON c.relnamespace = s.oid
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
  UNION ALL
  SELECT 'column ' || c.relname || '.' || a.attname, a.attacl
  FROM space s
  JOIN pg_catalog.pg_class c ON c.relnamespace = s.oid
  JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND NOT a.attisdropped
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attacl IS NOT NULL
  UNION ALL
  SELECT 'function ' || p.oid::regprocedure::text, coalesce(p.proacl, acldefault('f', p.proowner))
  FROM space s JOIN pg_catalog.pg_proc p ON p.pronamespace = s.oid
  UNION ALL
  SELECT 'type ' || t.typname, coalesce(t.typacl, acldefault('T', t.typowner))
  FROM space s
  JOIN pg_catalog.pg_type t ON t.typnamespace = s.oid
  LEFT JOIN pg_catalog.pg_class c ON c.oid = t.typrelid
  WHERE t.typelem = 0 AND t.typtype <> 'm' AND NOT coalesce(c.relispartition, false)
),
held AS (
  SELECT o.name, x.privilege_type
  FROM objects o
  CROSS JOIN LATERAL aclexplode(o.acl) x
  WHERE x.grantee = 0
)
SELECT 'seen' AS what, format('%s objects of the cell', count(*)) AS line, count(*) AS n FROM objects
UNION ALL
SELECT 'offence', format('PUBLIC has %s on %s', h.privilege_type, h.name), 1 FROM held h
UNION ALL
SELECT 'offence', format('%s may create objects in schema {cell}', quote_ident(r.rolname)), 1
FROM pg_catalog.pg_roles r, space s
WHERE NOT r.rolsuper AND r.oid <> s.nspowner AND has_schema_privilege(r.oid, s.oid, 'CREATE')
  AND NOT pg_has_role(r.oid, s.nspowner, 'USAGE')
UNION ALL
SELECT 'offence',
  format('PUBLIC may create objects in schema %s: a table or function there can shadow a name',
  quote_ident(n.nspname)), 1
FROM pg_catalog.pg_namespace n
CROSS JOIN LATERAL aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) x
WHERE x.grantee = 0 AND x.privilege_type = 'CREATE'
UNION ALL
SELECT 'offence', 'PUBLIC may create schemas in the database', 1
FROM pg_catalog.pg_database d
CROSS JOIN LATERAL aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) x
WHERE d.datname = current_database() AND x.grantee = 0 AND x.privilege_type = 'CREATE'
ORDER BY 1, 2
