-- next_in_order(touched_rails text[], touched_participants text[], claimed_rails text[], claim_id uuid)
--   -> (rail_types text[], participant_ids text[])
--   Moves lines whose head was dispatched to the next number of their participant, where that is in
--   pending or where there is none: nearly always so, and a small part of the cost of a walk. Returns
--   the touched lines that it has not moved, for advance_order_lines; null: none.
--
--   A head that is due is left to the claim of this turn, by claim_id, if its rail is one of
--   claimed_rails: a line has one update for each instruction then, of no indexed column. That claim
--   takes it, or has it wait among the others with ready_at. Otherwise it waits from now on.
--
--   A line is moved only if its head was claimed, is DISPATCHED by its last row, has no dead letter and is
--   not in pending, and if nothing below the head was unresolved when the line was last advanced. These
--   rows are read with the line locked, and in a later snapshot, as advance_order_lines does; and as
--   there, a number is never visible before a lower one. The line's marks stay: nothing of it is claimed
--   before they were consumed. A line that another session has locked is not moved.
-- reads:   payment_rails, payment_rail_profiles, payment_outbox_keys, payment_outbox_pending, payment_outbox_attempts,
--          payment_dead_letters.
-- writes:  payment_order_lines.   locks: the lines' rows, without waiting.   called by: executor.
CREATE OR REPLACE FUNCTION {cell}.next_in_order(
  touched_rails text[], touched_participants text[], claimed_rails text[], claim_id uuid)
RETURNS TABLE (rail_types text[], participant_ids text[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET enable_memoize = off
SET enable_sort = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  moment CONSTANT timestamptz := clock_timestamp();
  held   record;    -- the lines that are locked here, as arrays
  moved  integer[]; -- the places in touched_rails of those that were moved
BEGIN
  IF cardinality($1) = 0 THEN
    RETURN;
  END IF;
  SELECT array_agg(h.n) AS n, array_agg(h.place) AS place, array_agg(h.rail_type) AS rail_type,
    array_agg(h.participant_id) AS participant_id, array_agg(h.head) AS head, array_agg(h.head_no) AS head_no,
    array_agg(h.claims) AS claims INTO held
  FROM (
    SELECT t.n::integer AS n, h.place, t.rail_type, t.participant_id, h.head, h.head_no, m.claims
    FROM (
      SELECT r.rail_type, p.profile ->> 'order' AS everyone, p.profile -> 'order_participants' AS single,
        $4 IS NOT NULL AND r.rail_type = ANY ($3) AS claims
      FROM {cell}.payment_rails r
      JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
      WHERE r.rail_type = ANY ($1)
      OFFSET 0) m
    JOIN unnest($1 COLLATE "C", $2 COLLATE "C") WITH ORDINALITY AS t(rail_type, participant_id, n)
      ON t.rail_type = m.rail_type
    -- LIMIT keeps it a probe, here and below, whatever the statistics are.
    CROSS JOIN LATERAL (
      SELECT h.ctid AS place, h.head, h.head_no FROM {cell}.payment_order_lines h
      WHERE h.rail_type = t.rail_type AND h.participant_id = t.participant_id
        AND h.floor = h.head_no AND h.ready_at IS NULL AND h.blocked_by IS NULL
      LIMIT 1
      FOR UPDATE SKIP LOCKED) h
    WHERE coalesce(m.single ->> t.participant_id, m.everyone) = 'STRICT') h;

  -- A statement of its own: its snapshot has everything that was committed before the lines were locked.
  WITH next AS (
    SELECT l.n, l.place, l.claims, l.head_no, k.outbox_id, k.sequence_id, p.priority, p.next_attempt_at
    FROM unnest(held.n, held.place, held.rail_type COLLATE "C", held.participant_id COLLATE "C", held.head, held.head_no,
        held.claims)
      AS l(n, place, rail_type, participant_id, head, head_no, claims)
    LEFT JOIN LATERAL (
      -- Almost always the number behind the head's, and then nothing more is read: a scan of all that
      -- follow reads them up to the end of the index page.
      SELECT n.outbox_id, n.sequence_id
      FROM (
        (SELECT r.outbox_id, r.sequence_id FROM {cell}.payment_outbox_keys r
        WHERE r.participant_id = l.participant_id AND r.sequence_id = l.head_no + 1 LIMIT 1)
        UNION ALL
        (SELECT r.outbox_id, r.sequence_id FROM {cell}.payment_outbox_keys r
        WHERE r.participant_id = l.participant_id AND r.sequence_id > l.head_no
        ORDER BY r.sequence_id LIMIT 1)) n
      LIMIT 1) k ON true
    LEFT JOIN LATERAL (
      SELECT q.priority, q.next_attempt_at FROM {cell}.payment_outbox_pending q
      WHERE q.outbox_id = k.outbox_id AND q.rail_type = l.rail_type AND q.next_attempt_at < 'infinity' LIMIT 1) p ON true
    WHERE (k.outbox_id IS NULL OR p.priority IS NOT NULL)
      AND (
        SELECT a.state FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = l.head AND a.state <> 'LATE_OUTCOME'
        ORDER BY a.attempt_no DESC LIMIT 1) = 'DISPATCHED'
      AND (SELECT true FROM {cell}.payment_outbox_pending q WHERE q.outbox_id = l.head LIMIT 1) IS NULL
      AND (SELECT true FROM {cell}.payment_dead_letters d WHERE d.outbox_id = l.head LIMIT 1) IS NULL
  ),
  moved AS (
    UPDATE {cell}.payment_order_lines h
    SET floor = coalesce(x.sequence_id, x.head_no + 1), head = x.outbox_id, head_no = x.sequence_id,
      priority = coalesce(x.priority, h.priority), -- the index has no other without a head either
      claim_id = CASE WHEN x.claims AND x.next_attempt_at <= moment THEN $4 END,
      ready_at = CASE WHEN x.next_attempt_at > moment THEN x.next_attempt_at
        WHEN x.next_attempt_at IS NOT NULL AND NOT x.claims THEN moment END
    FROM next x
    WHERE h.ctid = x.place
    RETURNING x.n
  )
  SELECT array_agg(m.n) INTO moved FROM moved m;
  IF cardinality(moved) = cardinality($1) THEN
    RETURN;
  END IF;
  RETURN QUERY
  SELECT array_agg(t.rail_type), array_agg(t.participant_id)
  FROM unnest($1, $2) WITH ORDINALITY AS t(rail_type, participant_id, n)
  WHERE t.n NOT IN (SELECT m.n FROM unnest(moved) AS m(n));
END
$$;
