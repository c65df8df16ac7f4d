-- The members of Railhead's roles that are no roles of others, whether each may log in, and its
-- sessions: in this database, and in others of the server. $1 limit
SELECT g.rolname::text AS role, m.rolname::text AS login, m.rolcanlogin,
  coalesce(m.rolvaliduntil, 'infinity') <= clock_timestamp() AS password_ended, m.rolconnlimit,
  count(s.pid) FILTER (WHERE s.datname = current_database()) AS here,
  count(s.pid) FILTER (WHERE s.datname <> current_database()) AS elsewhere
FROM pg_roles g
JOIN pg_auth_members a ON a.roleid = g.oid
JOIN pg_roles m ON m.oid = a.member
LEFT JOIN pg_stat_activity s ON s.usesysid = m.oid
WHERE starts_with(g.rolname, 'railhead_') AND NOT g.rolcanlogin
  AND NOT EXISTS (SELECT FROM pg_auth_members below WHERE below.roleid = m.oid)
GROUP BY g.rolname, m.oid, m.rolname, m.rolcanlogin, m.rolvaliduntil, m.rolconnlimit
ORDER BY g.rolname, m.rolname
LIMIT $1
