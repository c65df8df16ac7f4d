-- The executor role may neither update, in any column, nor delete an attempt, by the name of the
-- archive or of a partition.
WITH relations AS (
  SELECT c.oid, c.relname FROM pg_catalog.pg_class c
  WHERE c.oid = to_regclass('{cell}.payment_outbox_attempts')
    OR c.oid IN (SELECT i.inhrelid FROM pg_catalog.pg_inherits i
      WHERE i.inhparent = to_regclass('{cell}.payment_outbox_attempts'))
)
SELECT 'seen' AS what, format('the archive and %s partitions', count(*) - 1) AS line, count(*) * 3 AS n FROM relations
UNION ALL
SELECT 'offence', format('railhead_executor has %s on %s', v.verb, r.relname), 1
FROM relations r CROSS JOIN (VALUES ('UPDATE'), ('DELETE'), ('TRUNCATE')) v (verb)
WHERE has_table_privilege('railhead_executor', r.oid, v.verb)
  OR v.verb = 'UPDATE' AND has_any_column_privilege('railhead_executor', r.oid, v.verb)
ORDER BY 1, 2
