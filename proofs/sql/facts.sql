-- What the report says about where it was made, and what the login may read.
SELECT
  current_database()::text AS database,
  current_setting('server_version') AS server_version,
  session_user::text AS login,
  r.rolsuper AS superuser,
  pg_is_in_recovery() AS standby,
  clock_timestamp() AS taken_at,
  to_regclass('{cell}.schema_migrations') IS NOT NULL AS migrated,
  (SELECT array_agg(c.relname::text ORDER BY c.relname)
   FROM pg_catalog.pg_class c
   WHERE c.relnamespace = to_regnamespace('{cell}') AND c.relkind IN ('r', 'p', 'v')
     AND has_schema_privilege(c.relnamespace, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')) AS readable,
  (SELECT array_agg(p.proname::text ORDER BY p.proname)
   FROM pg_catalog.pg_proc p
   WHERE p.pronamespace = to_regnamespace('{cell}')
     AND has_schema_privilege(p.pronamespace, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')) AS executable,
  has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') AS identified
FROM pg_catalog.pg_roles r
WHERE r.rolname = session_user
