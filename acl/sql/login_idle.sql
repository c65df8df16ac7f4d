-- Whether the login $1 has a bound of its own, for all databases, on how long it may
-- leave a transaction idle.
SELECT EXISTS (
  SELECT FROM pg_catalog.pg_db_role_setting s
  JOIN pg_catalog.pg_roles r ON r.oid = s.setrole
  CROSS JOIN LATERAL unnest(s.setconfig) AS c(setting)
  WHERE r.rolname = $1 AND s.setdatabase = 0 AND c.setting LIKE 'idle\_in\_transaction\_session\_timeout=%') AS is_set
