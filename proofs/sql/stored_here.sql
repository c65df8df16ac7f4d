-- Where the rows are. Triggers, locks and unique indexes guard rows that this server has in ordinary tables: not those of
-- a foreign table, of a table that an extension distributes over other servers (Citus puts a trigger of its own on each
-- of these), or of a partition outside of the schema, which the other proofs don't read.
WITH tables AS (
  SELECT c.oid, c.relname::text AS name, c.relkind, c.relam, c.relnamespace
  FROM pg_catalog.pg_class c
  WHERE c.relnamespace = to_regnamespace('{cell}') AND c.relkind IN ('r', 'p', 'f', 'm')
)
SELECT 'seen' AS what, format('%s tables and partitions', count(*)) AS line, count(*) AS n
FROM tables
UNION ALL
SELECT 'offence', format('%s is a foreign table: its rows are on another server', t.name), 1
FROM tables t
WHERE t.relkind = 'f'
UNION ALL
SELECT 'offence', format('%s is kept by the access method %s, not heap', t.name, m.amname), 1
FROM tables t
JOIN pg_catalog.pg_am m ON m.oid = t.relam
WHERE m.amname <> 'heap'
UNION ALL
SELECT 'offence', format('%s, a part of %s, is outside of the schema', c.oid::regclass, t.name), 1
FROM tables t
JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid
JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
WHERE c.relnamespace <> t.relnamespace
UNION ALL
SELECT 'offence', format('%s is distributed by Citus: its triggers do not reach the shards, where the rows are', t.name), 1
FROM tables t
JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid
JOIN pg_catalog.pg_proc f ON f.oid = g.tgfoid
WHERE f.proname = 'citus_truncate_trigger'
ORDER BY 1, 2
