-- What a server says of itself, and the first table of the cell whose rows are not in an ordinary table of this
-- server's. Every login may read it. $1 cell
WITH tables AS (
  SELECT c.oid, c.relname::text AS name, c.relkind, c.relam, c.relnamespace AS schema
  FROM pg_catalog.pg_class c
  WHERE c.relnamespace = to_regnamespace($1) AND c.relkind IN ('r', 'p', 'f')
    AND (starts_with(c.relname, 'payment_') OR c.relname = 'participant_outbox_sequences')
),
elsewhere (name, why) AS (
  SELECT t.name, 'is a foreign table: its rows are on another server' FROM tables t WHERE t.relkind = 'f'
  UNION ALL
  SELECT t.name, format('is kept by the access method %s, under which the guards were never tried', m.amname)
  FROM tables t JOIN pg_catalog.pg_am m ON m.oid = t.relam
  WHERE m.amname <> 'heap'
  UNION ALL
  SELECT t.name, format('has the partition %s, which is outside of the schema of the cell',
    c.oid::regclass)
  FROM tables t
  JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid
  JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
  WHERE c.relnamespace <> t.schema
  UNION ALL
  -- Citus puts this trigger on every table that it distributes, wherever its rows are.
  SELECT t.name, 'is distributed by Citus: its triggers do not reach the shards, where the rows are'
  FROM tables t
  JOIN pg_catalog.pg_trigger g ON g.tgrelid = t.oid
  JOIN pg_catalog.pg_proc f ON f.oid = g.tgfoid AND f.proname = 'citus_truncate_trigger'
)
SELECT current_setting('session_replication_role') AS replication_role,
  to_regnamespace($1) IS NOT NULL AS there,
  coalesce(current_setting('citus.enable_schema_based_sharding', true), 'off') IN ('on', 'true', '1') AS shards_schemas,
  transaction_timestamp() AS began,
  (SELECT format('%s %s', e.name, e.why) FROM elsewhere e ORDER BY e.name, e.why LIMIT 1) AS elsewhere
