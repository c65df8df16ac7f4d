-- Only superusers and named administrators have TRUNCATE on any table. The owner has it by ownership,
-- but the triggers refuse it. $1 the roles of the matrix, $2 their owner, $3 the administrators who
-- are no superusers: before PostgreSQL 16 a member that inherits has the privileges of the owner
WITH relations AS (
  SELECT c.oid, c.relname FROM pg_catalog.pg_class c
  WHERE c.relnamespace = to_regnamespace('{cell}') AND c.relkind IN ('r', 'p', 'f')
),
people AS (
  SELECT r.oid, r.rolname FROM pg_catalog.pg_roles r
  WHERE NOT r.rolsuper AND r.rolname <> $2 AND (r.rolname = ANY ($1::text[]) OR r.rolcanlogin
    AND r.rolname <> ALL ($3::text[]))
)
SELECT 'seen' AS what, format('%s tables, %s roles and logins', (SELECT count(*) FROM relations),
  (SELECT count(*) FROM people)) AS line,
  (SELECT count(*) FROM relations) * (SELECT count(*) FROM people) AS n
UNION ALL
SELECT 'offence', format('%s may TRUNCATE %s', quote_ident(p.rolname), r.relname), 1
FROM people p CROSS JOIN relations r
WHERE has_table_privilege(p.oid, r.oid, 'TRUNCATE')
ORDER BY 1, 2
