-- Migration 38, no callers code as owner. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function apply_rail_profile
CREATE OR REPLACE FUNCTION {cell}.apply_rail_profile(rail_type text, profile jsonb, reason text)
RETURNS TABLE (version integer, changed boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was jsonb; -- the profile before
BEGIN
  PERFORM {cell}.require_reason(apply_rail_profile.reason);
  IF jsonb_typeof(apply_rail_profile.profile) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a profile must be a JSON object';
  END IF;
  LOCK TABLE {cell}.payment_rails IN SHARE ROW EXCLUSIVE MODE;
  SELECT p.version, p.profile INTO apply_rail_profile.version, was
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  WHERE r.rail_type = apply_rail_profile.rail_type;
  IF was = apply_rail_profile.profile THEN
    changed := false;
    RETURN NEXT;
    RETURN;
  END IF;
  changed := true;
  SELECT coalesce(max(p.version), 0) + 1 INTO apply_rail_profile.version
  FROM {cell}.payment_rail_profiles p WHERE p.rail_type = apply_rail_profile.rail_type;
  INSERT INTO {cell}.payment_rail_profiles (rail_type, version, profile, reason)
  VALUES (apply_rail_profile.rail_type, apply_rail_profile.version, apply_rail_profile.profile,
    apply_rail_profile.reason);
  INSERT INTO {cell}.payment_rails AS r (rail_type, profile_version)
  VALUES (apply_rail_profile.rail_type, apply_rail_profile.version)
  ON CONFLICT ON CONSTRAINT payment_rails_pk
  DO UPDATE SET profile_version = excluded.profile_version, updated_at = clock_timestamp();
  IF (was -> 'order', was -> 'order_participants', was -> 'order_on_bad_end') IS DISTINCT FROM
    (apply_rail_profile.profile -> 'order', apply_rail_profile.profile -> 'order_participants',
      apply_rail_profile.profile -> 'order_on_bad_end')
  THEN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
      RAISE EXCEPTION USING ERRCODE = '25000',
        MESSAGE = 'the order of participants can''t be changed in a transaction of ' || current_setting('transaction_isolation'),
        DETAIL = 'It does not see what was replayed since it began, and the line would begin behind that.',
        HINT = 'Apply the profile in READ COMMITTED, as railhead rail apply does.';
    END IF;
    -- What is replayed meanwhile finds the lines and the profile, or is found here: see note_order_change.
    PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.order_of_rail ' || apply_rail_profile.rail_type, 0));
    -- What is there of participants that are no longer ordered is removed, because nothing keeps it true. A turn or an act
    -- that commits later can leave a line or a mark. It has no effect, and a profile that orders them again resets it.
    DELETE FROM {cell}.payment_order_lines h
    WHERE h.rail_type = apply_rail_profile.rail_type
      AND coalesce(apply_rail_profile.profile -> 'order_participants' ->> h.participant_id,
        apply_rail_profile.profile ->> 'order') IS DISTINCT FROM 'STRICT';
    DELETE FROM {cell}.payment_order_marks m
    WHERE m.rail_type = apply_rail_profile.rail_type
      AND coalesce(apply_rail_profile.profile -> 'order_participants' ->> m.participant_id,
        apply_rail_profile.profile ->> 'order') IS DISTINCT FROM 'STRICT';
    -- The line of one that is ordered from now on begins at the lowest number that may be unresolved.
    INSERT INTO {cell}.payment_order_lines AS h (rail_type, participant_id, floor)
    SELECT apply_rail_profile.rail_type, coalesce(s.participant_id, u.participant_id),
      coalesce(u.first_no, s.next_sequence_id)
    FROM {cell}.participant_outbox_sequences s
    FULL JOIN ( -- one that was moved to another cell has no counter, and payments that stay
      SELECT k.participant_id, min(k.sequence_id) AS first_no
      FROM (
        SELECT p.outbox_id FROM {cell}.payment_outbox_pending p WHERE p.rail_type = apply_rail_profile.rail_type
        UNION ALL
        SELECT m.outbox_id FROM {cell}.payment_outbox_claims f CROSS JOIN LATERAL unnest(f.outbox_ids) AS m(outbox_id)
        UNION ALL
        SELECT d.outbox_id FROM {cell}.payment_dead_letters d
        WHERE d.rail_type = apply_rail_profile.rail_type AND d.status NOT IN ('manual_replay', 'resolved')) o
      JOIN {cell}.payment_outbox_keys k ON k.outbox_id = o.outbox_id
      GROUP BY k.participant_id) u ON u.participant_id = s.participant_id
    WHERE coalesce(apply_rail_profile.profile -> 'order_participants' ->> coalesce(s.participant_id, u.participant_id),
        apply_rail_profile.profile ->> 'order') = 'STRICT'
      AND coalesce(was -> 'order_participants' ->> coalesce(s.participant_id, u.participant_id), was ->> 'order')
        IS DISTINCT FROM 'STRICT'
    ORDER BY 2
    ON CONFLICT ON CONSTRAINT payment_order_lines_pk DO UPDATE SET floor = excluded.floor, head = NULL, head_no = NULL,
      priority = NULL, ready_at = NULL, blocked_by = NULL, blocked_since = NULL;
    INSERT INTO {cell}.payment_order_marks (rail_type, participant_id)
    SELECT h.rail_type, h.participant_id FROM {cell}.payment_order_lines h
    WHERE h.rail_type = apply_rail_profile.rail_type;
  END IF;
  INSERT INTO {cell}.payment_operator_log (act, subject, reason, detail)
  VALUES ('APPLY_PROFILE', apply_rail_profile.rail_type, apply_rail_profile.reason,
    jsonb_build_object('version', apply_rail_profile.version));
  RETURN NEXT;
END
$$;
-- end of apply_rail_profile

-- function close_letter
CREATE OR REPLACE FUNCTION {cell}.close_letter(outbox_id uuid, status text, note text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  rail    text COLLATE "C";
  changes boolean; -- whether the letter is closed, or open, only from now on
BEGIN
  SELECT (d.status IN ('manual_replay', 'resolved')) <> ($2 IN ('manual_replay', 'resolved')) INTO changes
  FROM {cell}.payment_dead_letters d WHERE d.outbox_id = $1 FOR UPDATE;
  UPDATE {cell}.payment_dead_letters d
  SET status = $2, note = $3, actor = session_user, updated_at = clock_timestamp()
  WHERE d.outbox_id = $1
  RETURNING d.rail_type INTO rail;
  IF changes THEN
    PERFORM {cell}.note_order_change($1, rail, false);
  END IF;
END
$$;
-- end of close_letter

-- function require_directory
CREATE OR REPLACE FUNCTION {cell}.require_directory(argument anyelement) RETURNS anyelement
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM {cell}.require_map();
  RETURN argument;
END
$$;
-- end of require_directory

-- function require_map
CREATE OR REPLACE FUNCTION {cell}.require_map() RETURNS void
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF (SELECT r.own_buckets IS NULL FROM {cell}.payment_outbox_rules r) IS NOT FALSE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH009',
      MESSAGE = 'this cell is in no directory of cells: it may have been restored to a time before it joined',
      COLUMN = 'participant_id', CONSTRAINT = 'CELL',
      HINT = 'Nothing was stored. Repeat it later with the same key and content.';
  END IF;
END
$$;
-- end of require_map

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 38, serves 13'
$$;
-- end of schema_version

-- Processes of the builds before call require_directory, and may do so before railhead roles apply has run.
REVOKE ALL ON FUNCTION {cell}.require_map() FROM PUBLIC;
DO $$
DECLARE
  holder name;
BEGIN
  FOR holder IN
    SELECT pg_get_userbyid(e.grantee)
    FROM pg_proc p
    CROSS JOIN LATERAL aclexplode(p.proacl) e
    WHERE p.oid = '{cell}.require_directory(anyelement)'::regprocedure AND e.grantee NOT IN (0, p.proowner)
  LOOP
    EXECUTE format('GRANT EXECUTE ON FUNCTION {cell}.require_map() TO %I', holder);
  END LOOP;
END
$$;
