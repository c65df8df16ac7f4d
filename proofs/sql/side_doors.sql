-- Access to the cell's rows that no grant in the cell shows: views, functions and references
-- outside the cell, publications and subscriptions, rules, row security (which would hide rows from
-- these proofs), inheritance. $1 the roles of the matrix.
WITH cell AS (
  SELECT n.oid, n.nspowner FROM pg_catalog.pg_namespace n WHERE n.nspname = '{cell}'
),
relations AS (
  SELECT c.oid, c.relname::text AS name, c.relkind, c.relrowsecurity, c.relhasrules
  FROM pg_catalog.pg_class c JOIN cell ON cell.oid = c.relnamespace
  WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
),
extension_members AS (
  SELECT d.classid, d.objid FROM pg_catalog.pg_depend d WHERE d.deptype = 'e'
),
-- Functions outside the cell that run with their owner's rights, and whether their text names it.
definers AS (
  SELECT p.oid, p.oid::regprocedure::text AS name, p.pronamespace, p.proowner, o.rolsuper,
    o.rolsuper OR pg_has_role(p.proowner, cell.nspowner, 'MEMBER') AS masters,
    coalesce(p.proacl, acldefault('f', p.proowner)) AS acl,
    p.proowner = cell.nspowner OR p.prosrc ~ '\m{cell}\.'
      OR coalesce(pg_get_function_sqlbody(p.oid) ~ '\m{cell}\.', false)
      OR '{cell}' = ANY (SELECT btrim(e, ' "') FROM unnest(p.proconfig) c,
        unnest(string_to_array(substr(c, strpos(c, '=') + 1), ',')) e WHERE c LIKE 'search_path=%') AS named
  FROM pg_catalog.pg_proc p
  JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
  JOIN pg_catalog.pg_roles o ON o.oid = p.proowner
  CROSS JOIN cell
  WHERE p.prosecdef AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspowner <> cell.nspowner
    AND NOT EXISTS (SELECT FROM extension_members e
      WHERE e.classid = 'pg_catalog.pg_proc'::regclass AND e.objid = p.oid)
),
-- The others, whose text shows nothing, as statements that it composes do not: those that a login of
-- the roles may call and whose owner has rights in the cell that the login has not.
opaque AS (
  SELECT d.name, d.proowner, d.rolsuper, d.masters, r.rolname AS login, bool_or(x.grantee <> 0) AS granted
  FROM definers d
  CROSS JOIN LATERAL aclexplode(d.acl) x
  JOIN pg_catalog.pg_roles r ON x.grantee = 0 OR pg_has_role(r.oid, x.grantee, 'MEMBER')
  CROSS JOIN cell
  WHERE NOT d.named AND r.rolcanlogin AND NOT r.rolsuper AND NOT pg_has_role(r.oid, cell.nspowner, 'MEMBER')
    AND NOT pg_has_role(r.oid, d.proowner, 'MEMBER') AND has_schema_privilege(r.oid, d.pronamespace, 'USAGE')
    AND EXISTS (SELECT FROM pg_catalog.pg_roles o
      WHERE o.rolname = ANY ($1::text[]) AND pg_has_role(r.oid, o.oid, 'MEMBER'))
    AND EXISTS (SELECT FROM pg_catalog.pg_roles o
      WHERE o.rolname = ANY ($1::text[]) AND pg_has_role(d.proowner, o.oid, 'MEMBER'))
  GROUP BY 1, 2, 3, 4, 5
)
SELECT 'seen' AS what, format('%s relations of the cell', count(*)) AS line, count(*) AS n FROM relations
UNION ALL
SELECT 'offence', format('row security is on for %s: rows can be hidden', r.name), 1 FROM relations r
  WHERE r.relrowsecurity
UNION ALL
SELECT 'offence', format('policy %s on %s', p.polname, r.name), 1 FROM pg_catalog.pg_policy p JOIN relations r
  ON r.oid = p.polrelid
UNION ALL
SELECT 'offence', format('rule %s rewrites statements on %s', w.rulename, r.name), 1
FROM pg_catalog.pg_rewrite w JOIN relations r ON r.oid = w.ev_class
WHERE w.rulename <> '_RETURN'
UNION ALL
SELECT 'offence', format('publication %s publishes %s', p.pubname, coalesce(r.name, 'every table')), 1
FROM pg_catalog.pg_publication p
LEFT JOIN pg_catalog.pg_publication_rel m ON m.prpubid = p.oid
LEFT JOIN relations r ON r.oid = m.prrelid
WHERE p.puballtables OR r.oid IS NOT NULL
UNION ALL
SELECT 'offence', format('publication %s publishes every table of the cell', p.pubname), 1
FROM pg_catalog.pg_publication_namespace m
JOIN pg_catalog.pg_publication p ON p.oid = m.pnpubid
JOIN cell ON cell.oid = m.pnnspid
UNION ALL
SELECT 'offence', format('a subscription writes into %s', r.name), 1
FROM pg_catalog.pg_subscription_rel s JOIN relations r ON r.oid = s.srrelid
UNION ALL
SELECT DISTINCT 'offence', format('%s %s.%s, owned by %s, reads %s',
  CASE v.relkind WHEN 'm' THEN 'materialized view' ELSE 'view' END, quote_ident(n.nspname), quote_ident(v.relname),
    quote_ident(pg_get_userbyid(v.relowner)), r.name), 1
FROM pg_catalog.pg_depend d
JOIN relations r ON r.oid = d.refobjid AND d.refclassid = 'pg_catalog.pg_class'::regclass
JOIN pg_catalog.pg_rewrite w ON w.oid = d.objid AND d.classid = 'pg_catalog.pg_rewrite'::regclass
JOIN pg_catalog.pg_class v ON v.oid = w.ev_class
JOIN pg_catalog.pg_namespace n ON n.oid = v.relnamespace
WHERE v.relnamespace <> (SELECT oid FROM cell)
UNION ALL
SELECT 'offence',
  format('function %s outside the cell runs with the rights of %s and names the cell, or belongs to its owner',
  d.name, quote_ident(pg_get_userbyid(d.proowner))), 1
FROM definers d
WHERE d.named
UNION ALL
-- What every login may call is a note: administrators have such functions for purposes of their own.
SELECT 'offence', format('function %s outside the cell runs with the rights of %s, and a grant lets %s call it',
  o.name, CASE WHEN o.rolsuper THEN 'the superuser ' ELSE 'the administrator ' END
  || quote_ident(pg_get_userbyid(o.proowner)), string_agg(quote_ident(o.login), ', ' ORDER BY o.login)),
  1
FROM opaque o
WHERE o.masters AND o.granted
GROUP BY o.name, o.proowner, o.rolsuper
UNION ALL
SELECT 'note', format('a login of the roles may call functions outside the cell that run with the rights of superusers '
  'or of other logins, %s: %s%s', count(*), array_to_string((array_agg(o.name || ' of ' || quote_ident(pg_get_userbyid(
  o.proowner)) ORDER BY o.name))[1:10], ', '), CASE WHEN count(*) > 10 THEN ', and others' END), 1
FROM (SELECT DISTINCT q.name, q.proowner FROM opaque q WHERE NOT (q.masters AND q.granted)) o
HAVING count(*) > 0
UNION ALL
SELECT 'offence', format('%s references %s from outside the cell', k.conrelid::regclass, r.name), 1
FROM pg_catalog.pg_constraint k
JOIN relations r ON r.oid = k.confrelid
WHERE k.contype = 'f' AND k.conrelid NOT IN (SELECT o.oid FROM relations o)
UNION ALL
SELECT 'offence', format('%s inherits from %s', i.inhrelid::regclass, r.name), 1
FROM pg_catalog.pg_inherits i
JOIN relations r ON r.oid = i.inhparent
JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
WHERE NOT c.relispartition OR c.relnamespace <> (SELECT oid FROM cell)
UNION ALL
SELECT 'note', format('event trigger %s (%s) belongs to %s', t.evtname, t.evtevent,
  quote_ident(pg_get_userbyid(t.evtowner))), 1
FROM pg_catalog.pg_event_trigger t
UNION ALL
SELECT 'note', format('replication slot %s (%s) of %s', s.slot_name, s.slot_type, coalesce(s.database, 'the cluster')),
  1
FROM pg_catalog.pg_replication_slots s
WHERE coalesce(s.database = current_database(), true)
UNION ALL
SELECT 'note',
  'any login may make temporary tables (TEMP on the database): revoke it from PUBLIC where the DBA agrees; no '
    'function of the cell can be shadowed by one', 1
FROM pg_catalog.pg_database d
CROSS JOIN LATERAL aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) x
WHERE d.datname = current_database() AND x.grantee = 0 AND x.privilege_type = 'TEMPORARY'
UNION ALL
SELECT 'note', format('any login may call %s: revoke it from PUBLIC where the DBA agrees', x.family), 1
FROM (
  SELECT CASE WHEN p.proname LIKE 'lo\_%' THEN 'the large-object functions lo_*'
    ELSE 'the advisory locks pg_advisory_*' END AS family
  FROM pg_catalog.pg_proc p
  CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
  WHERE p.pronamespace = 'pg_catalog'::regnamespace AND a.grantee = 0
    AND (p.proname LIKE 'lo\_%' OR p.proname LIKE 'pg\_advisory\_%')
  GROUP BY 1) x
UNION ALL
SELECT 'note', format('%s is %s: the server''s log may hold payloads', s.name, s.setting), 1
FROM pg_catalog.pg_settings s
WHERE s.name = 'log_statement' AND s.setting IN ('mod', 'all') OR s.name = 'log_min_duration_statement'
  AND s.setting = '0'
ORDER BY 1, 2
