{make}
CREATE TEMPORARY TABLE railhead_prove_violations (violation text) ON COMMIT DROP;
DO $prove$
DECLARE
  a record;
  state text;
  holds boolean;
BEGIN
  IF NOT (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user) THEN
    RAISE EXCEPTION 'run it as a superuser: it assumes every role in turn' USING ERRCODE = 'insufficient_privilege';
  END IF;
  FOR a IN SELECT x.* FROM pg_temp.railhead_prove_attempts x LOOP
    -- Whatever the result of an attempt, the block is rolled back, and its role with it.
    BEGIN
      IF a.prep <> '' THEN
        EXECUTE a.prep;
      END IF;
      IF a.role <> '' THEN
        EXECUTE format('SET LOCAL ROLE %I', a.role);
      END IF;
      EXECUTE a.statement;
      RAISE SQLSTATE 'RHOK0';
    EXCEPTION WHEN OTHERS THEN
      state := nullif(SQLSTATE, 'RHOK0');
    END;
    holds := CASE
      WHEN a.wanted = 'recorded' THEN state IS NOT DISTINCT FROM 'P0001'
      -- Locked by another session: the privilege was checked.
      WHEN a.wanted = 'allowed' THEN state IS NULL OR state = '55P03'
      -- A view that is not simple is refused by its kind, before the privilege is checked.
      WHEN a.kind = 'view' THEN coalesce(state, '') IN ('42501', '55000', '42809', '0A000')
      ELSE state IS NOT DISTINCT FROM '42501' END;
    CONTINUE WHEN holds;
    INSERT INTO pg_temp.railhead_prove_violations
    SELECT format('%s%s, %s on %s %s%s: %s', coalesce(nullif(a.role, ''), 'a superuser'), CASE WHEN a.prep <> '' THEN ' in replica mode' END,
      a.verb, a.kind, a.name, CASE WHEN a.col <> '' THEN '.' || a.col END,
      CASE
        WHEN state IS NULL THEN format('it succeeded (%s)', a.statement)
        WHEN a.wanted = 'allowed' THEN format('refused with %s, and must not be (%s)', state, a.statement)
        ELSE format('SQLSTATE %s instead of the expected refusal (%s)', state, a.statement) END);
  END LOOP;
END
$prove$;
SELECT v.violation FROM pg_temp.railhead_prove_violations v
