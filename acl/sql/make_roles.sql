-- Make the roles, and give them their attributes where they differ: roles belong
-- to the whole cluster, and others may be at work on them.
DO $acl$
DECLARE
  wanted text;
BEGIN
  FOREACH wanted IN ARRAY {roles} LOOP
    IF to_regrole(wanted) IS NULL THEN
      EXECUTE format('CREATE ROLE %I {attributes}', wanted);
    ELSIF EXISTS (
      SELECT FROM pg_catalog.pg_roles r
      WHERE r.rolname = wanted
        AND (r.rolcanlogin OR r.rolsuper OR r.rolbypassrls OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication
          OR NOT r.rolinherit))
    THEN
      EXECUTE format('ALTER ROLE %I {attributes}', wanted);
    END IF;
  END LOOP;
END
$acl$;

