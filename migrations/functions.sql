-- The functions of a cell as they are, by the catalog, which every login may read.
-- The facts of each are those of dump.sql; the signature is as well where
-- search_path is pg_catalog alone. Of schema_version there is the body too: the others are a third of a
-- megabyte, and every connection to a cell begins with this. $1 cell
SELECT p.proname::text AS name,
  format('%s(%s) returns %s', p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)) AS signature,
  format('%s%s%s, body %s',
    CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END,
    CASE WHEN p.prosecdef THEN ', security definer' ELSE '' END,
    CASE WHEN p.proname = 'uuidv7' THEN '' ELSE coalesce(', set ' || array_to_string(p.proconfig, '; '), '') END,
    CASE WHEN p.proname = 'uuidv7' THEN 'by version' ELSE md5(p.prosrc) END) AS facts,
  p.oid::regprocedure::text AS identity,
  CASE WHEN p.proname = 'schema_version' THEN p.prosrc ELSE '' END AS body
FROM pg_catalog.pg_proc p
JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = $1
ORDER BY p.proname, p.oid
