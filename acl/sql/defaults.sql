-- What new objects would give to others than their owner $1: the owner's defaults
-- in the whole database (the built-in ones where none are written), and any
-- role's inside the cell $2, which can only add.
WITH kinds (objtype, builtin, noun) AS (
  VALUES ('r'::"char", 'r'::"char", 'TABLES'), ('S', 's', 'SEQUENCES'), ('f', 'f', 'ROUTINES'), ('T', 'T', 'TYPES'), ('n', 'n', 'SCHEMAS')
),
entries AS (
  SELECT o.oid AS maker, '' AS in_schema, k.noun, coalesce(d.defaclacl, acldefault(k.builtin, o.oid)) AS acl
  FROM pg_catalog.pg_roles o
  CROSS JOIN kinds k
  LEFT JOIN pg_catalog.pg_default_acl d
    ON d.defaclrole = o.oid AND d.defaclnamespace = 0 AND d.defaclobjtype = k.objtype
  WHERE o.rolname = $1
  UNION ALL
  SELECT d.defaclrole, quote_ident(n.nspname), k.noun, d.defaclacl
  FROM pg_catalog.pg_default_acl d
  JOIN pg_catalog.pg_namespace n ON n.oid = d.defaclnamespace
  JOIN kinds k ON k.objtype = d.defaclobjtype
  WHERE n.nspname = $2
)
SELECT DISTINCT
  quote_ident(pg_get_userbyid(e.maker)) AS maker, e.in_schema, e.noun,
  CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END AS grantee,
  x.privilege_type AS privilege
FROM entries e
CROSS JOIN LATERAL aclexplode(e.acl) x
WHERE x.grantee <> e.maker;
