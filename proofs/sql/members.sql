-- The roles that each login can reach, over any number of memberships, which access lists do not
-- show. $1 the roles of the matrix, $2 their owner, $3 the logins that the auditor expects, as
-- login=role; null to accept those that exist, $4 the administrators who are no superusers.
--
-- An administrator may become the owner, so no rule for services restricts it, as none restricts a
-- superuser: it is a note. It may grant the roles of services, and must not act as one of them. A
-- login that it has created, or that is a member of it, is none.
--
-- Before PostgreSQL 16, a membership inherits if the member does; since then, this is a property of
-- the membership. A member that does not inherit shows no privilege anywhere, and has all of them
-- after SET ROLE.
WITH RECURSIVE direct AS (
  SELECT m.member, m.roleid, m.admin_option,
    coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, r.rolinherit) AS inherits,
    coalesce((to_jsonb(m) ->> 'set_option')::boolean, true) AS sets
  FROM pg_catalog.pg_auth_members m
  JOIN pg_catalog.pg_roles r ON r.oid = m.member
),
reach (member, roleid) AS (
  SELECT d.member, d.roleid FROM direct d
  UNION
  SELECT r.member, d.roleid FROM reach r JOIN direct d ON d.member = r.roleid
),
ours AS (
  SELECT r.oid, r.rolname::text AS name FROM pg_catalog.pg_roles r WHERE r.rolname = ANY ($1::text[])
),
named AS (
  SELECT r.oid, r.rolname::text AS name, EXISTS (
    SELECT FROM reach x JOIN ours o ON o.oid = x.roleid WHERE x.member = r.oid AND o.name = $2) AS becomes_owner
  FROM pg_catalog.pg_roles r
  WHERE r.rolname = ANY ($4::text[]) AND r.rolname <> ALL ($1::text[]) AND NOT r.rolsuper
),
-- A group counts if one of the administrators is a member of it.
administrators AS (
  SELECT n.oid, n.name, n.becomes_owner
  FROM named n
  WHERE n.becomes_owner OR EXISTS (
    SELECT FROM reach x JOIN named m ON m.oid = x.member WHERE x.roleid = n.oid AND m.becomes_owner)
),
held AS (
  SELECT m.oid, m.rolname::text AS member, o.name AS role, m.rolcanlogin, m.rolsuper, m.rolbypassrls, m.rolcreaterole,
    m.rolreplication
  FROM reach x
  JOIN ours o ON o.oid = x.roleid
  JOIN pg_catalog.pg_roles m ON m.oid = x.member
  WHERE x.member NOT IN (SELECT a.oid FROM administrators a)
),
-- Predefined roles that reach every table, or the files of the server, without a grant.
master (name) AS (
  VALUES ('pg_read_all_data'), ('pg_write_all_data'), ('pg_read_server_files'), ('pg_write_server_files'),
    ('pg_execute_server_program'), ('pg_maintain'), ('pg_create_subscription')
)
SELECT 'seen' AS what, format('%s memberships; logins of the roles: %s, listed below', (SELECT count(*) FROM direct),
  (SELECT count(*) FROM held h WHERE h.rolcanlogin)) AS line,
  (SELECT count(*) FROM direct) AS n
UNION ALL
SELECT 'login', h.member || '=' || h.role, 1 FROM held h WHERE h.rolcanlogin
UNION ALL
SELECT 'offence', format('%s reaches the owner role %s', h.member, h.role), 1 FROM held h WHERE h.role = $2
UNION ALL
SELECT 'offence', format('%s reaches more than one role: %s', h.member, string_agg(DISTINCT h.role, ', ')), 1
FROM held h GROUP BY h.member HAVING count(DISTINCT h.role) > 1
UNION ALL
SELECT 'offence', format('role %s is a member of %s; a role of the matrix is a member of no role', o.name,
  quote_ident(r.rolname)), 1
FROM ours o JOIN reach x ON x.member = o.oid JOIN pg_catalog.pg_roles r ON r.oid = x.roleid
UNION ALL
SELECT 'offence', format('%s is a member of %s without inheriting it: no access list shows it, and SET ROLE grants it',
  quote_ident(m.rolname), o.name), 1
FROM direct d JOIN ours o ON o.oid = d.roleid JOIN pg_catalog.pg_roles m ON m.oid = d.member
WHERE NOT d.inherits AND d.member NOT IN (SELECT a.oid FROM administrators a)
UNION ALL
SELECT 'offence', format('%s may grant %s to others', quote_ident(m.rolname), o.name), 1
FROM direct d JOIN ours o ON o.oid = d.roleid JOIN pg_catalog.pg_roles m ON m.oid = d.member
WHERE d.admin_option AND d.member NOT IN (SELECT a.oid FROM administrators a)
UNION ALL
SELECT 'offence', format('%s, a member of %s, is %s', h.member, h.role, concat_ws(', ',
  CASE WHEN h.rolsuper THEN 'SUPERUSER' END, CASE WHEN h.rolbypassrls THEN 'BYPASSRLS' END,
  CASE WHEN h.rolcreaterole THEN 'CREATEROLE' END, CASE WHEN h.rolreplication THEN 'REPLICATION' END)), 1
FROM held h WHERE h.rolsuper OR h.rolbypassrls OR h.rolcreaterole OR h.rolreplication
UNION ALL
SELECT 'offence', format('%s is a member of %s, which bypasses every grant', quote_ident(m.rolname), r.rolname), 1
FROM reach x
JOIN pg_catalog.pg_roles r ON r.oid = x.roleid
JOIN master p ON p.name = r.rolname
JOIN pg_catalog.pg_roles m ON m.oid = x.member
WHERE NOT m.rolsuper AND m.oid NOT IN (SELECT a.oid FROM administrators a)
  AND m.rolname <> ALL (ARRAY(SELECT p2.name FROM master p2))
UNION ALL
-- The names of predefined roles begin with pg_, and those of no others.
SELECT 'offence', format('%s, a member of %s, is a member of the predefined role %s, too: it %s', h.member, h.role,
  r.rolname, CASE
    WHEN r.rolname IN ('pg_signal_backend', 'pg_signal_autovacuum_worker') THEN 'may end the sessions of others'
    WHEN r.rolname IN ('pg_monitor', 'pg_read_all_stats') THEN 'sees the statements of others'
    ELSE 'has rights outside of the cell' END), 1
FROM held h
JOIN reach x ON x.member = h.oid
JOIN pg_catalog.pg_roles r ON r.oid = x.roleid
WHERE h.rolcanlogin AND NOT h.rolsuper AND r.rolname LIKE 'pg\_%'
  AND r.rolname <> ALL (ARRAY(SELECT p.name FROM master p))
UNION ALL
SELECT 'offence', format('%s, a member of %s, is a member of %s, too, which is %s', h.member, h.role,
  quote_ident(r.rolname), concat_ws(', ', CASE WHEN r.rolsuper THEN 'SUPERUSER' END,
  CASE WHEN r.rolbypassrls THEN 'BYPASSRLS' END, CASE WHEN r.rolcreaterole THEN 'CREATEROLE' END,
  CASE WHEN r.rolreplication THEN 'REPLICATION' END)), 1
FROM held h
JOIN reach x ON x.member = h.oid
JOIN pg_catalog.pg_roles r ON r.oid = x.roleid
WHERE NOT h.rolsuper AND (r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolreplication)
  AND r.rolname <> h.role
UNION ALL
SELECT 'offence', format('%s is a member of %s, which the auditor did not expect', h.member, h.role), 1
FROM held h
WHERE $3::text[] IS NOT NULL AND h.member || '=' || h.role <> ALL ($3::text[])
UNION ALL
SELECT 'offence', format('%s is expected and does not exist', e.pair), 1
FROM unnest($3::text[]) e (pair)
WHERE NOT EXISTS (SELECT FROM held h WHERE h.member || '=' || h.role = e.pair)
UNION ALL
SELECT 'offence', format('%s, an administrator, has the rights of %s: it needs no more than to grant them',
  a.name, o.name), 1
FROM direct d JOIN ours o ON o.oid = d.roleid JOIN administrators a ON a.oid = d.member
WHERE o.name <> $2 AND (d.inherits OR d.sets)
UNION ALL
SELECT 'offence', format('%s is named as an administrator, and %s', n.name, CASE
  WHEN n.name = ANY ($1::text[]) THEN 'is a role of the cell'
  WHEN to_regrole(quote_ident(n.name)) IS NULL THEN 'does not exist'
  ELSE 'may not become ' || $2 END), 1
FROM unnest($4::text[]) n (name)
WHERE n.name NOT IN (SELECT a.name FROM administrators a)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.rolname = n.name AND r.rolsuper)
UNION ALL
SELECT 'note', 'administrators, who may become the owner: ' || string_agg(a.name, ', ' ORDER BY a.name), 1
FROM administrators a WHERE a.becomes_owner HAVING count(*) > 0
UNION ALL
SELECT 'note', 'groups of administrators: ' || string_agg(a.name, ', ' ORDER BY a.name), 1
FROM administrators a WHERE NOT a.becomes_owner HAVING count(*) > 0
UNION ALL
SELECT 'note', 'superusers, which no grant restricts: ' || string_agg(r.rolname, ', ' ORDER BY r.rolname), 1
FROM pg_catalog.pg_roles r WHERE r.rolsuper
UNION ALL
SELECT 'note', 'may create roles, and before PostgreSQL 16 make themselves members of any: '
  || string_agg(r.rolname, ', ' ORDER BY r.rolname), 1
FROM pg_catalog.pg_roles r WHERE r.rolcreaterole AND NOT r.rolsuper HAVING count(*) > 0
UNION ALL
SELECT 'note', 'REPLICATION, which can read everything: ' || string_agg(r.rolname, ', ' ORDER BY r.rolname), 1
FROM pg_catalog.pg_roles r WHERE r.rolreplication AND NOT r.rolsuper HAVING count(*) > 0
ORDER BY 1, 2
