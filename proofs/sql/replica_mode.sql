-- Ways to disable triggers or weaken durability without being a superuser: a granted parameter, or
-- a setting of a role or database.
WITH grants AS (
  SELECT p.parname AS name, x.privilege_type AS privilege,
    CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS grantee
  FROM pg_catalog.pg_parameter_acl p
  CROSS JOIN LATERAL aclexplode(p.paracl) x
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = x.grantee
  WHERE NOT coalesce(r.rolsuper, false)
),
starts AS (
  SELECT coalesce(r.rolname::text, 'every role') AS role, coalesce(d.datname::text, 'every database') AS database,
    split_part(c, '=', 1) AS name, substr(c, strpos(c, '=') + 1) AS value
  FROM pg_catalog.pg_db_role_setting s
  CROSS JOIN LATERAL unnest(s.setconfig) c
  LEFT JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
  LEFT JOIN pg_catalog.pg_database d ON d.oid = s.setdatabase
  WHERE s.setdatabase IN (0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()))
),
dangerous (name) AS (
  VALUES ('session_replication_role'), ('role'), ('session_preload_libraries'), ('local_preload_libraries'),
    ('shared_preload_libraries'), ('fsync'), ('full_page_writes'), ('allow_system_table_mods'),
    ('archive_command'), ('restore_command'), ('zero_damaged_pages'), ('ignore_system_indexes')
)
SELECT 'seen' AS what, format('%s granted parameters, %s settings of roles and databases',
  (SELECT count(*) FROM grants), (SELECT count(*) FROM starts)) AS line,
  (SELECT count(*) FROM grants) + (SELECT count(*) FROM starts) + 1 AS n
UNION ALL
SELECT 'offence', format('%s may set %s (%s)', g.grantee, g.name, g.privilege), 1
FROM grants g
WHERE g.name IN (SELECT d.name FROM dangerous d) OR g.privilege = 'ALTER SYSTEM'
UNION ALL
SELECT 'note', format('%s may set %s', g.grantee, g.name), 1
FROM grants g
WHERE g.name NOT IN (SELECT d.name FROM dangerous d) AND g.privilege <> 'ALTER SYSTEM'
UNION ALL
SELECT 'offence', format('%s starts with %s = %s in %s', s.role, s.name, s.value, s.database), 1
FROM starts s
WHERE s.name IN (SELECT d.name FROM dangerous d) OR s.name = 'synchronous_commit' AND s.value IN ('off', 'local')
UNION ALL
SELECT 'note', format('%s starts with %s = %s in %s', s.role, s.name, s.value, s.database), 1
FROM starts s
WHERE NOT (s.name IN (SELECT d.name FROM dangerous d) OR s.name = 'synchronous_commit' AND s.value IN ('off', 'local'))
UNION ALL
SELECT 'offence', format('%s is %s: committed rows can be lost', x.name, x.setting), 1
FROM pg_catalog.pg_settings x
WHERE x.name IN ('fsync', 'full_page_writes') AND x.reset_val <> 'on'
  OR x.name = 'session_replication_role' AND x.reset_val <> 'origin'
ORDER BY 1, 2
