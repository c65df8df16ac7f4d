-- apply_rail_profile(rail_type text, profile jsonb, reason text) -> (version integer, changed boolean)
--   Puts a profile in force as the next version of the rail's profile. The profile that is already
--   in force changes nothing. The caller must have validated the profile, as railhead rail apply
--   does.
-- errors:  RH002 without a reason, or if the profile is not an object;
--          25000 above READ COMMITTED, if the order of participants changes; 55P03 after 5 s of waiting for a lock.
-- reads:   participant_outbox_sequences, payment_outbox_keys, payment_outbox_pending, payment_outbox_claims,
--          payment_dead_letters, if the order of participants changes.
-- writes:  payment_rail_profiles, payment_rails, payment_order_lines, payment_order_marks, payment_operator_log.
-- locks:   payment_rails in SHARE ROW EXCLUSIVE mode: profiles change rarely, one at a time; then, if the order of
--          participants changes, the order of the rail (an advisory lock), their lines, which it waits for turns to release,
--          and their marks.
-- called by: operator.
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
        WHERE d.rail_type = apply_rail_profile.rail_type AND d.status NOT IN ({closed_letters})) o
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
  PERFORM {cell}.log_operator_act('APPLY_PROFILE', apply_rail_profile.rail_type, NULL, apply_rail_profile.reason,
    jsonb_build_object('version', apply_rail_profile.version));
  RETURN NEXT;
END
$$;
