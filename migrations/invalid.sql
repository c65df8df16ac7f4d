-- Relations of a cell that do not work as their definition says, each with what is wrong.
-- $1 cell
SELECT format('index %s', i.indexrelid::regclass), 'is not valid'
FROM pg_catalog.pg_index i
JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND NOT (i.indisvalid AND i.indisready AND i.indislive)
UNION ALL
SELECT format('table %s', c.oid::regclass),
  CASE
    WHEN c.relpersistence <> 'p' THEN 'is unlogged'
    WHEN c.relrowsecurity THEN 'has row security'
    ELSE 'has rules'
  END
FROM pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')
  AND (c.relpersistence <> 'p' OR c.relrowsecurity
    OR EXISTS (SELECT FROM pg_catalog.pg_rewrite r WHERE r.ev_class = c.oid)) -- relhasrules may outlive the last rule
