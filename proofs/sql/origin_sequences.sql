-- Readers and auditors may not read a participant's next number, in any column.
WITH people AS (
  SELECT r.oid, r.rolname FROM pg_catalog.pg_roles r
  WHERE r.rolname IN ('railhead_readonly', 'railhead_auditor')
    OR NOT r.rolsuper AND (pg_has_role(r.oid, 'railhead_readonly', 'MEMBER')
      OR pg_has_role(r.oid, 'railhead_auditor', 'MEMBER'))
)
SELECT 'seen' AS what, format('%s roles and logins', count(*)) AS line, count(*) AS n FROM people
UNION ALL
SELECT 'offence', format('%s may %s participant_outbox_sequences', quote_ident(p.rolname), v.verb), 1
FROM people p CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE')) v (verb)
WHERE has_any_column_privilege(p.oid, to_regclass('{cell}.participant_outbox_sequences'), v.verb)
ORDER BY 1, 2
