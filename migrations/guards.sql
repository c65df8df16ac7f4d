-- The triggers of a cell that are missing or do not fire in every session (ENABLE ALWAYS), with the table and,
-- for a partition of the archive, the table that it is a part of; a trigger of that does not fire for a statement
-- that names the partition. $1 cell, $2 tables, $3 the trigger of each.
WITH wanted AS (
  SELECT w.name, w.name AS parent, w.trigger
  FROM unnest($2::text[], $3::text[]) AS w (name, trigger)
  UNION ALL
  SELECT c.relname::text, p.relname::text, w.trigger
  FROM unnest($2::text[], $3::text[]) AS w (name, trigger)
  JOIN pg_catalog.pg_class p ON p.relnamespace = to_regnamespace($1) AND p.relname = w.name AND p.relkind = 'p'
  JOIN pg_catalog.pg_inherits i ON i.inhparent = p.oid
  JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
)
SELECT w.name AS table, w.parent, w.trigger, g.oid IS NOT NULL AS there
FROM wanted w
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = to_regnamespace($1) AND c.relname = w.name
LEFT JOIN pg_catalog.pg_trigger g ON g.tgrelid = c.oid AND g.tgname = w.trigger
WHERE g.tgenabled IS DISTINCT FROM 'A'
ORDER BY w.name, w.trigger
