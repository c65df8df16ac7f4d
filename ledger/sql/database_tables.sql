-- The largest tables of the database, of whichever owner, with their indexes and what is stored
-- outside of them. $1 limit
SELECT n.nspname::text AS schema, c.relname::text AS name, pg_total_relation_size(c.oid) AS bytes
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm')
ORDER BY 3 DESC, 1, 2
LIMIT $1
