-- The facts about its origin that the report shows, and what the login may read: whole tables by
-- their names, and columns as table.column.
SELECT
  current_database()::text AS database,
  current_setting('server_version') AS server_version,
  session_user::text AS login,
  r.rolsuper AS superuser,
  pg_is_in_recovery() AS standby,
  clock_timestamp() AS taken_at,
  to_regclass('{cell}.schema_migrations') IS NOT NULL AS migrated,
  (SELECT array_agg(x.name ORDER BY x.name)
   FROM pg_catalog.pg_class c
   CROSS JOIN LATERAL (
     SELECT c.relname::text WHERE has_table_privilege(c.oid, 'SELECT')
     UNION ALL
     SELECT c.relname || '.' || a.attname
     FROM pg_catalog.pg_attribute a
     WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
       AND has_column_privilege(c.oid, a.attnum, 'SELECT')) x (name)
   WHERE c.relnamespace = to_regnamespace('{cell}') AND c.relkind IN ('r', 'p', 'v')
     AND has_schema_privilege(c.relnamespace, 'USAGE')) AS readable,
  (SELECT array_agg(p.proname::text ORDER BY p.proname)
   FROM pg_catalog.pg_proc p
   WHERE p.pronamespace = to_regnamespace('{cell}')
     AND has_schema_privilege(p.pronamespace, 'USAGE') AND has_function_privilege(p.oid, 'EXECUTE')) AS executable,
  has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') AS identified
FROM pg_catalog.pg_roles r
WHERE r.rolname = session_user
