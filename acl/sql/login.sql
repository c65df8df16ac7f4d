-- What the login $1 is a member of. Before PostgreSQL 16 a membership always
-- inherits; from then on that is a property of the membership.
SELECT
  pg_get_userbyid(m.roleid)::text AS role,
  quote_ident(pg_get_userbyid(m.roleid)) AS quoted,
  m.admin_option AS admin,
  coalesce((to_jsonb(m) ->> 'inherit_option')::boolean, true) AS inherits,
  coalesce(quote_ident(g.rolname), '') AS grantor
FROM pg_catalog.pg_auth_members m
LEFT JOIN pg_catalog.pg_roles g ON g.oid = m.grantor
WHERE pg_get_userbyid(m.member) = $1;
