-- What the current user has of what an administrator that is no superuser needs: $1 the roles of the matrix,
-- $2 their owner, $3 the cell. From PostgreSQL 16 on CREATEROLE gives no role that another login has created, and
-- a membership may lack SET. Members of the owner through which an administrator
-- may become it are groups: a login that it has created, and may grant, is none of them.
WITH matrix AS (
  SELECT r.oid, r.rolname::text AS name FROM pg_catalog.pg_roles r WHERE r.rolname = ANY ($1)
)
SELECT
  r.rolname::text AS name,
  quote_ident(r.rolname) AS quoted,
  session_user::text AS session,
  quote_ident(current_database()) AS database,
  r.rolsuper AS superuser,
  r.rolcreaterole AS createsroles,
  EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = $3)
    OR has_database_privilege(current_database(), 'CREATE') AS createsschema,
  v.since16,
  coalesce((
    SELECT bool_and(pg_has_role(o.oid, CASE WHEN v.since16 THEN 'SET' ELSE 'MEMBER' END))
    FROM matrix o
    WHERE o.name = $2), false) AS becomesowner,
  ARRAY(
    SELECT o.name FROM matrix o
    WHERE v.since16 AND NOT pg_has_role(o.oid, 'MEMBER WITH ADMIN OPTION')
    ORDER BY array_position($1, o.name)) AS ofothers,
  ARRAY(
    SELECT w.rolname::text
    FROM pg_catalog.pg_auth_members m
    JOIN matrix o ON o.oid = m.roleid AND o.name = $2
    JOIN pg_catalog.pg_roles w ON w.oid = m.member
    WHERE r.rolcreaterole AND NOT r.rolsuper AND (w.oid = r.oid
      -- A group is a way for all of its members: it counts only where the administrator has no other one.
      OR NOT EXISTS (SELECT FROM pg_catalog.pg_auth_members d WHERE d.roleid = o.oid AND d.member = r.oid)
      AND NOT w.rolcanlogin AND w.rolname <> ALL ($1) AND pg_has_role(w.oid, CASE WHEN v.since16 THEN 'SET' ELSE 'MEMBER' END))
    ORDER BY w.rolname) AS ways
FROM pg_catalog.pg_roles r
CROSS JOIN LATERAL (SELECT current_setting('server_version_num')::int >= 160000 AS since16) v
WHERE r.rolname = current_user;
