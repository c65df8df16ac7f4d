-- The privileges of PUBLIC in the cell, and the places in which any role could create an object. A
-- null access list stands for the built-in default. Row types of partitions are left out: default
-- privileges do not apply to them. $1 the roles of the matrix.
--
-- A login of these roles may create objects in a schema of its own, but not where another login
-- with rights in the cell, or a superuser, finds them without naming the schema: a function whose
-- arguments match better than those of pg_catalog's is called instead of it, with the caller's rights. The
-- function stays when the privilege is revoked. Superusers and members of the owner are left out.
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
),
-- Everyone whose session has rights in the cell: logins by membership or as superusers, and the
-- roles of the matrix, which a session can be after SET ROLE.
insiders AS (
  SELECT r.oid, r.rolname, r.rolcanlogin, r.rolsuper,
    (SELECT string_agg(o.rolname, ', ' ORDER BY o.rolname) FROM pg_catalog.pg_roles o
      WHERE o.rolname = ANY ($1::text[]) AND pg_has_role(r.oid, o.oid, 'MEMBER')) AS roles
  FROM pg_catalog.pg_roles r
  WHERE r.rolsuper OR r.rolname = ANY ($1::text[]) OR r.rolcanlogin AND EXISTS (
    SELECT FROM pg_catalog.pg_roles o WHERE o.rolname = ANY ($1::text[]) AND pg_has_role(r.oid, o.oid, 'MEMBER'))
),
logins AS (
  SELECT i.oid, quote_ident(i.rolname) AS name, i.roles
  FROM insiders i, space s
  WHERE i.rolcanlogin AND NOT i.rolsuper AND NOT pg_has_role(i.oid, s.nspowner, 'MEMBER')
),
-- The schemas that are searched without being named, and by whose sessions: 0 for those of all.
searched (name, of) AS (
  VALUES ('pg_catalog', 0::oid), ('public', 0)
  UNION
  SELECT i.rolname::text, i.oid FROM insiders i
  UNION
  SELECT btrim(e.entry, ' "'), c.setrole
  FROM pg_catalog.pg_db_role_setting c
  CROSS JOIN LATERAL unnest(c.setconfig) v (line)
  CROSS JOIN LATERAL unnest(string_to_array(substr(v.line, strpos(v.line, '=') + 1), ',')) e (entry)
  WHERE v.line LIKE 'search\_path=%' AND (c.setrole = 0 OR c.setrole IN (SELECT i.oid FROM insiders i))
    AND c.setdatabase IN (0, (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()))
),
-- The same, as one of the logins sees it: whether it is searched by sessions other than its own.
shared AS (
  SELECT l.oid AS login, l.name, l.roles, n.oid AS schema, n.nspname, n.nspowner, n.nspacl, string_agg(
    CASE p.of WHEN 0 THEN 'every login' ELSE quote_ident(pg_get_userbyid(p.of)) END, ', ' ORDER BY p.of) AS sessions
  FROM logins l
  JOIN searched p ON p.of <> l.oid
  JOIN pg_catalog.pg_namespace n ON n.nspname = p.name
  GROUP BY 1, 2, 3, 4, 5, 6, 7
),
-- Functions of a login that are called by name or as an operator. A trigger's is neither.
planted AS (
  SELECT p.proowner AS owner, p.pronamespace AS schema, 'function ' || p.oid::regprocedure::text AS name
  FROM pg_catalog.pg_proc p
  WHERE p.prorettype NOT IN ('pg_catalog.trigger'::regtype, 'pg_catalog.event_trigger'::regtype)
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
      WHERE d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
  UNION ALL
  SELECT o.oprowner, o.oprnamespace, 'operator ' || o.oid::regoperator::text
  FROM pg_catalog.pg_operator o
  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
    WHERE d.classid = 'pg_catalog.pg_operator'::regclass AND d.objid = o.oid AND d.deptype = 'e')
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
UNION ALL
SELECT 'offence', format('%s, a member of %s, owns the database: it may set the search_path with which sessions start',
  l.name, l.roles), 1
FROM pg_catalog.pg_database d JOIN logins l ON pg_has_role(l.oid, d.datdba, 'MEMBER')
WHERE d.datname = current_database()
UNION ALL
SELECT 'offence', format('%s, a member of %s, may create schemas in the database: one with the name of another login '
  'is the first that this one''s sessions search', l.name, l.roles), 1
FROM pg_catalog.pg_database d JOIN logins l ON NOT pg_has_role(l.oid, d.datdba, 'MEMBER')
WHERE d.datname = current_database() AND EXISTS (SELECT FROM aclexplode(d.datacl) x
  WHERE x.grantee <> 0 AND x.privilege_type = 'CREATE' AND pg_has_role(l.oid, x.grantee, 'MEMBER'))
UNION ALL
SELECT 'offence', format('%s, a member of %s, %s schema %s, which is searched by sessions of %s: a function there can '
  'be called instead of one of pg_catalog', h.name, h.roles, CASE WHEN pg_has_role(h.login, h.nspowner, 'MEMBER')
  THEN 'owns' ELSE 'may create objects in' END, quote_ident(h.nspname), h.sessions), 1
FROM shared h
WHERE pg_has_role(h.login, h.nspowner, 'MEMBER') OR EXISTS (SELECT FROM aclexplode(h.nspacl) x
  WHERE x.grantee <> 0 AND x.privilege_type = 'CREATE' AND pg_has_role(h.login, x.grantee, 'MEMBER'))
UNION ALL
SELECT 'offence', format('%s belongs to %s, a member of %s, and is in schema %s, which is searched by sessions of %s',
  p.name, h.name, h.roles, quote_ident(h.nspname), h.sessions), 1
FROM planted p JOIN shared h ON h.schema = p.schema AND pg_has_role(h.login, p.owner, 'MEMBER')
ORDER BY 1, 2
