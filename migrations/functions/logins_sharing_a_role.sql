-- logins_sharing_a_role(login text) -> text[]
--   The logins whose instructions a login may ask about: the login itself, and those with which it
--   shares a role, directly or through other roles. The roles that Railhead creates, which all
--   logins of a kind share, and the roles of PostgreSQL itself do not count.
-- reads:   the catalog.   locks: nothing.   called by: payment_status_batch.
CREATE OR REPLACE FUNCTION {cell}.logins_sharing_a_role(login text) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  WITH RECURSIVE up(oid) AS (
    SELECT m.roleid FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member WHERE r.rolname = $1
    UNION
    SELECT m.roleid FROM pg_auth_members m JOIN up ON up.oid = m.member
  ), down(oid) AS (
    SELECT up.oid FROM up JOIN pg_roles r ON r.oid = up.oid
    WHERE NOT starts_with(r.rolname, 'pg_')
      AND r.rolname NOT IN ('railhead_owner', 'railhead_ingest', 'railhead_executor', 'railhead_callbacks',
        'railhead_api', 'railhead_events',
        'railhead_operator', 'railhead_control', 'railhead_readonly', 'railhead_auditor', 'railhead_contract')
    UNION
    SELECT m.member FROM pg_auth_members m JOIN down ON down.oid = m.roleid
  )
  SELECT array_agg(DISTINCT l.name)
  FROM (SELECT $1 AS name UNION ALL SELECT r.rolname FROM down JOIN pg_roles r ON r.oid = down.oid
    WHERE r.rolcanlogin) l
$$;
