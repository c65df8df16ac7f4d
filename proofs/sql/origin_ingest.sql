-- The ingest role has no privilege on any table, and may execute only the enqueue functions and
-- those that return the status of an instruction. has_*_privilege includes memberships and PUBLIC.
WITH relations AS (
  SELECT c.oid, c.relname FROM pg_catalog.pg_class c
  WHERE c.relnamespace = to_regnamespace('{cell}') AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
),
functions AS (
  SELECT p.oid, p.proname FROM pg_catalog.pg_proc p WHERE p.pronamespace = to_regnamespace('{cell}')
),
verbs (verb) AS (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE'), ('TRUNCATE'), ('REFERENCES'), ('TRIGGER'))
SELECT 'seen' AS what, format('%s relations, %s functions', (SELECT count(*) FROM relations),
  (SELECT count(*) FROM functions)) AS line,
  (SELECT count(*) FROM relations) * 7 + (SELECT count(*) FROM functions) AS n
UNION ALL
SELECT 'offence', format('railhead_ingest has %s on %s', v.verb, r.relname), 1
FROM relations r CROSS JOIN verbs v
WHERE has_table_privilege('railhead_ingest', r.oid, v.verb)
  OR v.verb IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') AND has_any_column_privilege('railhead_ingest', r.oid,
    v.verb)
UNION ALL
SELECT 'offence', format('railhead_ingest may execute %s', f.oid::regprocedure), 1
FROM functions f
WHERE has_function_privilege('railhead_ingest', f.oid, 'EXECUTE')
  AND f.proname NOT IN ('enqueue_payment_outbox', 'enqueue_payment_outbox_batch', 'enqueue_payment_outbox_arrays',
    'payment_status', 'payment_status_batch', 'listen_for_outcomes', 'cell_map', 'cell_bucket',
    'routing_map', 'require_directory', 'require_map')
UNION ALL
SELECT 'offence', format('railhead_ingest may not execute %s', w.name), 1
FROM (VALUES ('enqueue_payment_outbox'), ('enqueue_payment_outbox_batch'), ('enqueue_payment_outbox_arrays')) w (name)
WHERE NOT EXISTS (SELECT FROM functions f WHERE f.proname = w.name AND has_function_privilege('railhead_ingest', f.oid,
  'EXECUTE'))
ORDER BY 1, 2
