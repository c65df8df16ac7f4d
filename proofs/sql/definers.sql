-- Functions that run with their owner's rights, or as a trigger. Their search_path is pinned to
-- pg_catalog, the cell and pg_temp, in that order and with pg_temp last, so that no temporary
-- table, operator or function of a caller replaces ours. Their bodies qualify the names of the
-- cell's tables nevertheless. None takes an argument of any type: a value of a domain that a caller
-- made carries the domain's CHECK, and with it code that would run with the owner's rights.
WITH functions AS (
  SELECT p.oid, p.oid::regprocedure::text AS name, p.prosecdef, p.prosrc, p.proowner,
    p.proargtypes::oid[] AS arguments,
    (SELECT substr(c, length('search_path=') + 1) FROM unnest(p.proconfig) c WHERE c LIKE 'search_path=%') AS path
  FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = to_regnamespace('{cell}')
    AND (p.prosecdef OR p.prorettype = 'pg_catalog.trigger'::regtype)
),
entries AS (
  SELECT f.name, array_agg(btrim(e.entry, ' "') ORDER BY e.place) AS entries
  FROM functions f
  CROSS JOIN LATERAL unnest(string_to_array(f.path, ',')) WITH ORDINALITY e (entry, place)
  GROUP BY f.name
)
SELECT 'seen' AS what, format('%s functions, of them SECURITY DEFINER %s', count(*),
  count(*) FILTER (WHERE f.prosecdef)) AS line, count(*) AS n
FROM functions f
UNION ALL
SELECT 'offence', f.name || ' has no pinned search_path', 1 FROM functions f WHERE f.path IS NULL
UNION ALL
SELECT 'offence', format('%s: pg_temp is not the last of its search_path (%s)', f.name, f.path), 1
FROM functions f JOIN entries e ON e.name = f.name
WHERE e.entries[cardinality(e.entries)] <> 'pg_temp' OR array_position(e.entries, 'pg_temp') <> cardinality(e.entries)
UNION ALL
SELECT 'offence', format('%s: its search_path begins with %s and not with pg_catalog', f.name, e.entries[1]), 1
FROM functions f JOIN entries e ON e.name = f.name
WHERE e.entries[1] <> 'pg_catalog'
UNION ALL
SELECT 'offence', format('%s: schema %s is on its search_path', f.name, x.entry), 1
FROM functions f
JOIN entries e ON e.name = f.name
CROSS JOIN LATERAL unnest(e.entries) x (entry)
WHERE x.entry NOT IN ('pg_catalog', '{cell}', 'pg_temp')
UNION ALL
SELECT 'offence', format('%s takes a value of any type (%s): code of its caller runs with the rights of %s', f.name,
  string_agg(format_type(t.oid, NULL), ', ' ORDER BY a.place), quote_ident(pg_get_userbyid(f.proowner))), 1
FROM functions f
CROSS JOIN LATERAL unnest(f.arguments) WITH ORDINALITY a (type, place)
JOIN pg_catalog.pg_type t ON t.oid = a.type AND t.typtype = 'p'
WHERE f.prosecdef
GROUP BY f.oid, f.name, f.proowner
UNION ALL
SELECT DISTINCT 'offence', format('%s: its body names %s without its schema', f.name, c.relname), 1
FROM functions f
JOIN pg_catalog.pg_class c ON c.relnamespace = to_regnamespace('{cell}') AND c.relkind IN ('r', 'p', 'v')
WHERE f.prosrc ~* ('\m(from|join|into|update|only|table)\s+' || c.relname || '\M')
ORDER BY 1, 2
