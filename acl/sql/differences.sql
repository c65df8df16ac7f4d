-- The comparison of railhead roles diff as one statement: every way in which the
-- live catalog differs from the matrix, which stands here as rows.
WITH names (name) AS (
  VALUES
{names}
),
wanted (role, privilege, kind, name, col, reason) AS (
  VALUES
{grants}
),
-- What no grant may ever give; an empty list stands for all.
never (place, privileges, objects, columns, roles, because) AS (
  VALUES
{never}
),
live AS (
{privileges}
),
objects AS (
  SELECT DISTINCT l.kind, l.name, l.col, l.owner, l.partition, l.row_type,
    CASE WHEN l.name = '' THEN l.kind WHEN l.col <> '' THEN l.kind || ' ' || l.name || ', column ' || l.col ELSE l.kind || ' ' || l.name END AS label
  FROM live l
),
held AS (
  -- Looked up by IN, which hashes: with few rows in sight the planner loops.
  SELECT l.kind, l.name, l.col, l.partition, l.grantee, l.privilege, l.grantable,
    CASE WHEN l.name = '' THEN l.kind WHEN l.col <> '' THEN l.kind || ' ' || l.name || ', column ' || l.col ELSE l.kind || ' ' || l.name END AS label,
    (l.grantee, l.privilege, l.kind, l.name, l.col) IN (SELECT w.role, w.privilege, w.kind, w.name, w.col FROM wanted w)
      AND NOT l.partition AS wanted
  FROM live l
  WHERE l.grantee <> ''
)
SELECT 'MISSING_ROLE' AS code, format('role %s does not exist', n.name) AS detail
FROM names n
WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = n.name)
UNION ALL
SELECT 'ROLE_ATTRIBUTE', format('role %s is %s; want %s', r.rolname, a.has, a.wants)
FROM names n
JOIN pg_catalog.pg_roles r ON r.rolname = n.name
CROSS JOIN LATERAL (VALUES
  ('LOGIN', 'NOLOGIN', r.rolcanlogin), ('SUPERUSER', 'NOSUPERUSER', r.rolsuper), ('BYPASSRLS', 'NOBYPASSRLS', r.rolbypassrls),
  ('CREATEROLE', 'NOCREATEROLE', r.rolcreaterole), ('CREATEDB', 'NOCREATEDB', r.rolcreatedb),
  ('REPLICATION', 'NOREPLICATION', r.rolreplication), ('NOINHERIT', 'INHERIT', NOT r.rolinherit)) a (has, wants, differs)
WHERE a.differs
UNION ALL
SELECT CASE WHEN o.present THEN 'MISSING_GRANT' ELSE 'MISSING_OBJECT' END,
  CASE WHEN o.present THEN format('%s lacks %s on %s: %s', w.role, w.privilege, o.label, w.reason)
    ELSE format('the matrix grants %s %s on %s, which does not exist', w.role, w.privilege, o.label) END
FROM wanted w
CROSS JOIN LATERAL (
  SELECT (w.kind, w.name, w.col) IN (SELECT x.kind, x.name, x.col FROM objects x WHERE NOT x.partition) AS present,
    CASE WHEN w.name = '' THEN w.kind WHEN w.col <> '' THEN w.kind || ' ' || w.name || ', column ' || w.col ELSE w.kind || ' ' || w.name END AS label) o
WHERE NOT o.present
  OR (w.role, w.privilege, w.kind, w.name, w.col) NOT IN (SELECT l.grantee, l.privilege, l.kind, l.name, l.col FROM live l)
UNION ALL
SELECT 'WRONG_OWNER', format('%s owns %s; want %s. An operator has to check it: its owner can put anything in it', o.owner, o.label, {owner})
FROM objects o
WHERE o.owner <> {owner} AND o.col = '' AND NOT o.row_type
UNION ALL
SELECT 'DEFAULT_GRANT', format('%s gets %s on new %s %s that %s makes', d.grantee, d.privilege, lower(d.noun),
  CASE WHEN d.in_schema = '' THEN 'of the database' ELSE 'of the cell' END, d.maker)
FROM (
{defaults}
) d
UNION ALL
SELECT CASE WHEN h.wanted THEN 'GRANT_OPTION' ELSE 'EXTRA_GRANT' END,
  CASE
    WHEN h.wanted THEN format('%s may pass on %s on %s', h.grantee, h.privilege, h.label)
    WHEN h.partition THEN format('%s has %s on partition %s; access goes through its parent', h.grantee, h.privilege, h.name)
    ELSE format('%s has %s on %s, which the matrix does not name', h.grantee, h.privilege, h.label)
      || coalesce('; never, because ' || (
        SELECT n.because FROM never n
        WHERE h.privilege = ANY (n.privileges) AND (n.objects = '{}' OR h.name = ANY (n.objects))
          AND (n.columns = '{}' OR h.col = '' OR h.col = ANY (n.columns)) AND (n.roles = '{}' OR h.grantee = ANY (n.roles))
        ORDER BY n.place
        LIMIT 1), '')
  END
FROM held h
WHERE NOT h.wanted OR h.grantable
UNION ALL
SELECT 'EXTRA_MEMBER', format('%s is a member of %s', m.member, m.role)
FROM (
{members}
) m
