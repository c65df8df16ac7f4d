-- Take everything from everybody, PUBLIC included; what is named below is given
-- again before this transaction ends.
DO $acl$
DECLARE
  held record;
BEGIN
  FOR held IN
{privileges}
  LOOP
    IF held.owner <> {owner} AND held.col = '' AND NOT held.row_type THEN
      RAISE EXCEPTION '% owns % %: look at it before anything else; its owner can put anything in it',
        held.owner, held.kind, held.ident;
    END IF;
    CONTINUE WHEN held.grantee = '';
    EXECUTE format('REVOKE ALL ON %s %s FROM %s CASCADE',
      CASE held.kind WHEN 'function' THEN 'ROUTINE' WHEN 'view' THEN 'TABLE' ELSE upper(held.kind) END,
      held.ident, held.grantee);
  END LOOP;
END
$acl$;

-- New objects give no role anything. Without IN SCHEMA: that form only adds.
DO $acl$
DECLARE
  given record;
BEGIN
  FOR given IN
{defaults}
  LOOP
    EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %s %s REVOKE ALL ON %s FROM %s',
      given.maker, CASE WHEN given.in_schema <> '' THEN 'IN SCHEMA ' || given.in_schema ELSE '' END,
      given.noun, given.grantee);
  END LOOP;
END
$acl$;

-- No role but an administrator is a member of the owner, and none of these roles is a member of anything.
DO $acl$
DECLARE
  membership record;
BEGIN
  FOR membership IN
{members}
  LOOP
    EXECUTE format('REVOKE %s FROM %s %s CASCADE', membership.role, membership.member,
      CASE WHEN membership.grantor <> '' THEN 'GRANTED BY ' || membership.grantor ELSE '' END);
  END LOOP;
END
$acl$;
