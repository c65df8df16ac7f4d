-- Memberships that no role should have: any role's in the owner $1, but for the administrators $3, and those
-- of the roles $2 in any other role, predefined ones included.
SELECT
  quote_ident(pg_get_userbyid(m.roleid)) AS role,
  quote_ident(pg_get_userbyid(m.member)) AS member,
  coalesce(quote_ident(g.rolname), '') AS grantor
FROM pg_catalog.pg_auth_members m
LEFT JOIN pg_catalog.pg_roles g ON g.oid = m.grantor
WHERE pg_get_userbyid(m.roleid) = $1 AND pg_get_userbyid(m.member) <> ALL ($3)
  OR pg_get_userbyid(m.member) = ANY ($2);
