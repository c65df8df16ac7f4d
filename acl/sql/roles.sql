-- The roles named in $1 that exist, with what they were made with.
SELECT
  r.rolname::text AS name, r.rolcanlogin, r.rolsuper, r.rolbypassrls, r.rolcreaterole, r.rolcreatedb, r.rolreplication, r.rolinherit
FROM pg_catalog.pg_roles r
WHERE r.rolname = ANY ($1);
