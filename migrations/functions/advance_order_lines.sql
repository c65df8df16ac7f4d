-- advance_order_lines(touched_rails text[], touched_participants text[], rails text[], since timestamptz[],
--                     after text[], most integer, after_row uuid, most_rows integer)
--   -> (rail_type text, swept_to text, ready timestamptz[], swept_row uuid)
--   Finds the head of lines: the instruction of the participant on the rail with the lowest unresolved
--   sequence_id. These lines are advanced:
--   - the touched ones;
--   - of each of rails, those that are marked, at most 500;
--   - of each of rails, those without a head of participants with rows that became due at since or
--     later, by the first 200 and the last 500 such rows of each priority;
--   - of each of rails, the rotation: the next participants (at most most) after the one named in after,
--     in the order of their ids, also those that were moved to another cell; null: it rests. It leaves
--     out lines without a head whose participant has enqueued nothing here since, and lines whose head is due
--     and in pending, unless they are marked.
--   Only lines of participants that the profile in force orders are advanced, and only those that no
--   other session has locked: a touched one that is locked is marked. Of the next pending rows (at most
--   most_rows, of at most a fifth as many pages) behind the place after_row, those below the floor of their
--   line are marked; null: none of them. The rotation and this find whatever everything else missed.
--
--   Returns for each rail of the rotation up to which participant it was swept ('' at the end), the
--   earliest time at which a head of each priority was ready before, and up to which place in pending it
--   was looked: a uuid that says nothing to callers, null at the end. The first place is zero.
--
--   An instruction is unresolved while it is pending, claimed or parked, while no row says what
--   became of it, and, with order_on_bad_end BLOCK, while its dead letter is open. One that has ended or
--   is parked is resolved if an operator has skipped it since its last row. The walk begins at
--   floor, below which nothing is unresolved, or at the lowest number of the marks. All walks together
--   read about 10,000 numbers, one line's at most 1,000; a line that needs more is marked. A head that is
--   claimed stays the head until the claim is answered, whatever returned to pending below it.
--
--   A number is never visible before a lower one of its participant: an enqueue holds the participant's
--   row from the allocation of the number to the commit. A mark is consumed with its line locked, and
--   the walk has a later snapshot, which shows whatever the mark was made for.
-- reads:   payment_rails, payment_rail_profiles, participant_outbox_sequences, payment_packed_participants, payment_outbox_keys,
--          payment_outbox_pending, payment_outbox_attempts, payment_outbox_instructions, payment_dead_letters,
--          payment_operator_log.
-- writes:  payment_order_lines, payment_order_marks.   locks: the lines' rows and the marks, without waiting.
-- called by: executor.
CREATE OR REPLACE FUNCTION {cell}.advance_order_lines(
  touched_rails text[], touched_participants text[], rails text[], since timestamptz[], after text[], most integer,
  after_row uuid, most_rows integer)
RETURNS TABLE (rail_type text, swept_to text, ready timestamptz[], swept_row uuid)
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
  walk_budget  CONSTANT integer := 10000;
  walk_least   CONSTANT integer := 20;
  walk_most    CONSTANT integer := 1000;
  marks_max    CONSTANT integer := 500;
  marks_each   CONSTANT integer := 100;
  arrivals_old CONSTANT integer := 200;
  arrivals_new CONSTANT integer := 500;
  pages_max    CONSTANT integer := greatest($8 / 5, 1);
  moment       CONSTANT timestamptz := clock_timestamp();
  walk_max     integer;
  page         bigint; -- of pending, at which the rotation goes on
  looked       tid;    -- up to where it has looked; null: to the end
  seen         bigint; -- how many pending rows were looked at
  last_place   tid;    -- of them
  modes        record; -- the order of each rail, as arrays
  swept_rails  text[]; -- participants of the rotation: their rails
  swept_of     text[]; -- their names
  swept_next   bigint[]; -- and their next numbers
  wanted       record; -- the lines to advance, as arrays
  held         record; -- those that are locked here, as arrays
  marked       record; -- the lowest number of the marks of each, as arrays
  again        record; -- the lines that have to be advanced once more, as arrays
BEGIN
  SELECT array_agg(m.rail_type) AS rail_type, array_agg(m.everyone) AS everyone, array_agg(m.single) AS single,
    array_agg(m.skips) AS skips INTO modes
  FROM (
    SELECT r.rail_type, p.profile ->> 'order' AS everyone, p.profile -> 'order_participants' AS single,
      coalesce(p.profile ->> 'order_on_bad_end', 'BLOCK') = 'SKIP' AS skips
    FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    WHERE r.rail_type = ANY ($1 || $3) OR $7 IS NOT NULL) m;

  IF $7 IS NOT NULL THEN
    -- By place and not by outbox_id: a step would read the entries of all rows that were claimed since the oldest
    -- snapshot, which keeps them. A row that moves to where the step has been is found the next time.
    page := ('x' || substr($7::text, 25, 8))::bit(32)::bigint;
    looked := format('(%s,0)', least(page + pages_max, 4294967295))::tid;
    WITH passed AS MATERIALIZED (
      SELECT q.ctid AS place, q.outbox_id, q.rail_type, q.participant_id FROM {cell}.payment_outbox_pending q
      WHERE q.ctid > format('(%s,%s)', page, ('x' || substr($7::text, 33, 4))::bit(16)::integer)::tid AND q.ctid < looked
      ORDER BY q.ctid LIMIT $8
    ),
    below AS (
      INSERT INTO {cell}.payment_order_marks (rail_type, participant_id, sequence_id)
      SELECT h.rail_type, h.participant_id, min(k.sequence_id)
      FROM (
        SELECT q.rail_type, q.participant_id, array_agg(q.outbox_id) AS outbox_ids
        FROM passed q
        GROUP BY q.rail_type, q.participant_id) q
      JOIN unnest(modes.rail_type COLLATE "C", modes.everyone, modes.single) AS m(rail_type, everyone, single)
        ON m.rail_type = q.rail_type
      -- LIMIT keeps it a probe, here and below, whatever the statistics are.
      CROSS JOIN LATERAL (
        SELECT h.rail_type, h.participant_id, h.floor FROM {cell}.payment_order_lines h
        WHERE h.rail_type = q.rail_type AND h.participant_id = q.participant_id LIMIT 1) h
      CROSS JOIN LATERAL unnest(q.outbox_ids) AS i(outbox_id)
      CROSS JOIN LATERAL (
        SELECT k.sequence_id FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = i.outbox_id LIMIT 1) k
      WHERE coalesce(m.single ->> q.participant_id, m.everyone) = 'STRICT' AND k.sequence_id < h.floor
        -- A rail that no process claims keeps its marks: one is enough.
        AND (
          SELECT true FROM {cell}.payment_order_marks x
          WHERE x.rail_type = h.rail_type AND x.participant_id = h.participant_id AND x.sequence_id <= k.sequence_id
          LIMIT 1) IS NULL
      GROUP BY h.rail_type, h.participant_id
    )
    SELECT count(*), max(q.place) INTO seen, last_place FROM passed q;
    IF seen = $8 THEN
      looked := last_place;
    ELSIF page + pages_max >= pg_relation_size('{cell}.payment_outbox_pending')
      / current_setting('block_size')::integer
    THEN
      looked := NULL;
    END IF;
  END IF;

  IF array_remove($5, NULL) <> '{}' THEN
    SELECT array_agg(s.rail_type), array_agg(s.participant_id), array_agg(s.next_sequence_id)
    INTO swept_rails, swept_of, swept_next
    FROM (
      SELECT l.rail_type COLLATE "C" AS rail_type, n.participant_id, n.next_sequence_id
      FROM unnest($3, $5) AS l(rail_type, after)
      CROSS JOIN LATERAL (
        SELECT q.participant_id, q.next_sequence_id
        FROM (
          (SELECT q.participant_id, q.next_sequence_id FROM {cell}.participant_outbox_sequences q
           WHERE q.participant_id > l.after COLLATE "C" ORDER BY q.participant_id LIMIT $6)
          UNION ALL -- those that were moved to another cell: their payments stay
          (SELECT q.participant_id, q.next_sequence_id FROM {cell}.payment_packed_participants q
           WHERE q.participant_id > l.after COLLATE "C" ORDER BY q.participant_id LIMIT $6)) q
        ORDER BY q.participant_id LIMIT $6) n) s;
    -- A head that becomes ready below is ready since then, and claims begin earlier than that in any case.
    RETURN QUERY
    SELECT l.rail_type,
      CASE WHEN count(s.participant_id) = $6 THEN max(s.participant_id COLLATE "C") ELSE '' END,
      (SELECT array_agg((
          SELECT h.ready_at FROM {cell}.payment_order_lines h
          WHERE h.rail_type = l.rail_type COLLATE "C" AND h.priority = level.priority AND h.ready_at IS NOT NULL
          ORDER BY h.ready_at LIMIT 1) ORDER BY level.priority)
        FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS level(priority)),
      (SELECT format('00000000-0000-0000-0000-%s%s', lpad(to_hex(p.place[0]::bigint), 8, '0'),
          lpad(to_hex(p.place[1]::integer), 4, '0'))::uuid
        FROM (VALUES (looked::text::point)) AS p(place)
        WHERE looked IS NOT NULL)
    FROM unnest($3, $5) AS l(rail_type, after)
    LEFT JOIN unnest(swept_rails, swept_of) AS s(rail_type, participant_id) ON s.rail_type = l.rail_type
    WHERE l.after IS NOT NULL
    GROUP BY l.rail_type;
  END IF;

  WITH mode AS MATERIALIZED (
    SELECT m.rail_type COLLATE "C" AS rail_type, m.everyone, m.single
    FROM unnest(modes.rail_type, modes.everyone, modes.single) AS m(rail_type, everyone, single)
  ),
  candidate AS (
    SELECT t.rail_type COLLATE "C" AS rail_type, t.participant_id COLLATE "C" AS participant_id
    FROM unnest($1, $2) AS t(rail_type, participant_id)
    UNION
    SELECT l.rail_type, k.participant_id
    FROM unnest($3) AS l(rail_type)
    JOIN mode m ON m.rail_type = l.rail_type COLLATE "C"
    CROSS JOIN LATERAL (
      SELECT k.participant_id FROM {cell}.payment_order_marks k
      WHERE k.rail_type = m.rail_type AND coalesce(m.single ->> k.participant_id, m.everyone) = 'STRICT'
      GROUP BY k.participant_id ORDER BY k.participant_id LIMIT marks_max) k
    UNION
    SELECT m.rail_type, q.participant_id
    FROM unnest($3, $4) AS l(rail_type, since)
    JOIN mode m ON m.rail_type = l.rail_type COLLATE "C"
    CROSS JOIN (VALUES (0::smallint), (1::smallint), (2::smallint)) AS level(priority)
    CROSS JOIN LATERAL (
      -- From both ends: the rows behind a head are due as well, however many they are, and must hide
      -- neither those that came since nor those that came before. Each participant is looked up once.
      (SELECT q.participant_id FROM {cell}.payment_outbox_pending q
      WHERE q.rail_type = m.rail_type AND q.priority = level.priority
        AND q.next_attempt_at >= l.since AND q.next_attempt_at <= moment
      ORDER BY q.next_attempt_at LIMIT arrivals_old)
      UNION
      (SELECT q.participant_id FROM {cell}.payment_outbox_pending q
      WHERE q.rail_type = m.rail_type AND q.priority = level.priority
        AND q.next_attempt_at >= l.since AND q.next_attempt_at <= moment
      ORDER BY q.next_attempt_at DESC LIMIT arrivals_new)) q
    WHERE coalesce(m.single ->> q.participant_id, m.everyone) = 'STRICT'
      AND (
        SELECT true FROM {cell}.payment_order_lines h
        WHERE h.rail_type = m.rail_type AND h.participant_id = q.participant_id AND h.head IS NOT NULL LIMIT 1) IS NULL
    UNION
    -- Not those whose head is due: it waits for a slot only. Nor those whose head is claimed: its outcome moves it on.
    SELECT s.rail_type, s.participant_id
    FROM unnest(swept_rails COLLATE "C", swept_of COLLATE "C", swept_next) AS s(rail_type, participant_id, next_no)
    LEFT JOIN LATERAL (
      SELECT h.rail_type, h.head, h.floor, h.ready_at, h.blocked_by FROM {cell}.payment_order_lines h
      WHERE h.rail_type = s.rail_type AND h.participant_id = s.participant_id LIMIT 1) h ON true
    WHERE h.rail_type IS NULL
      OR h.head IS NULL AND h.floor < s.next_no AND EXISTS (
        SELECT FROM {cell}.payment_outbox_keys r
        WHERE r.participant_id = s.participant_id AND r.sequence_id >= h.floor)
      OR h.head IS NOT NULL AND h.ready_at IS NULL AND (h.blocked_by IS NOT NULL OR (
        SELECT a.state IN ({claim_states}) FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = h.head AND a.state <> 'LATE_OUTCOME'
        ORDER BY a.attempt_no DESC LIMIT 1) IS NOT TRUE)
      OR h.ready_at IS NOT NULL AND (h.ready_at > moment OR NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_pending q
        WHERE q.outbox_id = h.head AND q.rail_type = h.rail_type AND q.next_attempt_at <= moment))
      -- Nothing of a marked line is claimed, and there may be more of them than are looked at above.
      OR EXISTS (
        SELECT FROM {cell}.payment_order_marks k WHERE k.rail_type = s.rail_type AND k.participant_id = s.participant_id)
  )
  SELECT array_agg(c.rail_type) AS rail_type, array_agg(c.participant_id) AS participant_id INTO wanted
  FROM (
    SELECT c.rail_type, c.participant_id
    FROM candidate c
    JOIN mode m ON m.rail_type = c.rail_type
    WHERE coalesce(m.single ->> c.participant_id, m.everyone) = 'STRICT'
    ORDER BY c.rail_type, c.participant_id) c;
  IF wanted.rail_type IS NULL THEN
    RETURN;
  END IF;

  -- The second time with those that had no line yet.
  FOR attempt IN 1..2 LOOP
    SELECT array_agg(h.rail_type) AS rail_type, array_agg(h.participant_id) AS participant_id INTO held
    FROM (
      SELECT h.rail_type, h.participant_id
      FROM unnest(wanted.rail_type COLLATE "C", wanted.participant_id COLLATE "C") AS w(rail_type, participant_id)
      CROSS JOIN LATERAL (
        SELECT h.rail_type, h.participant_id FROM {cell}.payment_order_lines h
        WHERE h.rail_type = w.rail_type AND h.participant_id = w.participant_id
        LIMIT 1
        FOR UPDATE SKIP LOCKED) h) h;
    EXIT WHEN cardinality(held.rail_type) = cardinality(wanted.rail_type) OR attempt = 2;
    INSERT INTO {cell}.payment_order_lines (rail_type, participant_id)
    SELECT w.rail_type, w.participant_id
    FROM unnest(wanted.rail_type COLLATE "C", wanted.participant_id COLLATE "C") AS w(rail_type, participant_id)
    WHERE (
      SELECT true FROM {cell}.payment_order_lines h
      WHERE h.rail_type = w.rail_type AND h.participant_id = w.participant_id LIMIT 1) IS NULL
    ON CONFLICT DO NOTHING;
    EXIT WHEN NOT FOUND;
  END LOOP;
  walk_max := least(walk_most, greatest(walk_least, walk_budget / greatest(cardinality(held.rail_type), 1)));

  -- Statements of their own: their snapshots have everything that was committed before the lines were locked.
  IF EXISTS (SELECT FROM {cell}.payment_order_marks m WHERE m.rail_type = ANY (held.rail_type)) THEN
    WITH consumed AS (
      DELETE FROM {cell}.payment_order_marks k
      WHERE k.ctid = ANY (ARRAY(
        SELECT m.place
        FROM unnest(held.rail_type COLLATE "C", held.participant_id COLLATE "C") AS l(rail_type, participant_id)
        CROSS JOIN LATERAL (
          SELECT m.ctid AS place FROM {cell}.payment_order_marks m
          WHERE m.rail_type = l.rail_type AND m.participant_id = l.participant_id
          LIMIT marks_each
          FOR UPDATE SKIP LOCKED) m))
      RETURNING k.rail_type, k.participant_id, k.sequence_id
    )
    SELECT array_agg(m.rail_type) AS rail_type, array_agg(m.participant_id) AS participant_id,
      array_agg(m.sequence_id) AS sequence_id INTO marked
    FROM (
      SELECT c.rail_type, c.participant_id, min(c.sequence_id) AS sequence_id
      FROM consumed c
      WHERE c.sequence_id IS NOT NULL
      GROUP BY c.rail_type, c.participant_id) m;
    UPDATE {cell}.payment_order_lines h SET floor = m.sequence_id
    FROM unnest(marked.rail_type COLLATE "C", marked.participant_id COLLATE "C", marked.sequence_id)
      AS m(rail_type, participant_id, sequence_id)
    WHERE h.rail_type = m.rail_type AND h.participant_id = m.participant_id AND m.sequence_id < h.floor;
  END IF;

  WITH found AS (
    SELECT h.place, h.rail_type, h.participant_id,
      CASE WHEN now_head.claimed THEN h.floor
        ELSE coalesce(w.sequence_id, passed.last_no + 1, h.floor) END AS floor,
      CASE WHEN now_head.claimed THEN h.head ELSE w.outbox_id END AS head,
      CASE WHEN now_head.claimed THEN h.head_no ELSE w.sequence_id END AS head_no,
      w.priority,
      -- A head keeps its place among the heads of others, which is that of the moment at which it became due and the head.
      CASE WHEN w.outbox_id = h.head AND h.ready_at >= w.ready_at AND h.ready_at <= moment THEN h.ready_at
        ELSE greatest(w.ready_at, CASE WHEN w.ready_at IS NOT NULL THEN moment END) END AS ready_at,
      w.blocked_by, coalesce(passed.n = walk_max, false) AS goes_on
    FROM unnest(held.rail_type COLLATE "C", held.participant_id COLLATE "C") AS l(rail_type, participant_id)
    CROSS JOIN LATERAL (
      SELECT h.ctid AS place, h.rail_type, h.participant_id, h.floor, h.head, h.head_no, h.ready_at
      FROM {cell}.payment_order_lines h
      WHERE h.rail_type = l.rail_type AND h.participant_id = l.participant_id LIMIT 1) h
    JOIN unnest(modes.rail_type, modes.skips) AS m(rail_type, skips) ON m.rail_type = h.rail_type
    LEFT JOIN LATERAL (
      SELECT a.rail_type, a.state::text AS state, a.attempt_no FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = h.head AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC LIMIT 1) last ON true
    CROSS JOIN LATERAL (SELECT coalesce(last.state IN ({claim_states}), false) AS claimed) now_head
    LEFT JOIN LATERAL (
      SELECT k.outbox_id, k.sequence_id, s.priority, s.ready_at, s.blocked_by
      FROM (
        SELECT r.outbox_id, r.sequence_id FROM {cell}.payment_outbox_keys r
        WHERE r.participant_id = h.participant_id AND r.sequence_id >= h.floor
        ORDER BY r.sequence_id LIMIT walk_max) k
      CROSS JOIN LATERAL (
        SELECT p.priority, CASE WHEN p.next_attempt_at < 'infinity' THEN p.next_attempt_at END AS ready_at,
          CASE WHEN p.next_attempt_at < 'infinity' OR a.state IN ({claim_states}) THEN NULL
            ELSE coalesce(d.reason, CASE WHEN p.rail_type IS NULL THEN a.state END, 'UNCLAIMABLE') END AS blocked_by
        FROM (VALUES (true)) AS one
        LEFT JOIN LATERAL (
          SELECT q.rail_type, q.priority, q.next_attempt_at
          FROM {cell}.payment_outbox_pending q WHERE q.outbox_id = k.outbox_id LIMIT 1) p ON true
        LEFT JOIN LATERAL (
          SELECT last.rail_type, last.state, last.attempt_no
          WHERE p.rail_type IS NULL AND last.state IS NOT NULL AND k.outbox_id = h.head
          UNION ALL
          (SELECT t.rail_type, t.state::text AS state, t.attempt_no FROM {cell}.payment_outbox_attempts t
          WHERE p.rail_type IS NULL AND k.outbox_id IS DISTINCT FROM h.head
            AND t.outbox_id = k.outbox_id AND t.state <> 'LATE_OUTCOME'
          ORDER BY t.attempt_no DESC LIMIT 1)) a ON true
        LEFT JOIN LATERAL (
          SELECT i.rail_type FROM {cell}.payment_outbox_instructions i
          WHERE p.rail_type IS NULL AND a.rail_type IS NULL AND i.outbox_id = k.outbox_id LIMIT 1) i ON true
        LEFT JOIN LATERAL (
          SELECT e.reason, e.status FROM {cell}.payment_dead_letters e
          WHERE (p.rail_type IS NULL OR p.next_attempt_at >= 'infinity') AND e.outbox_id = k.outbox_id LIMIT 1) d ON true
        WHERE coalesce(p.rail_type, a.rail_type, i.rail_type) = h.rail_type
          AND CASE
            WHEN p.rail_type IS NOT NULL THEN true
            WHEN a.state IN ({claim_states}) THEN true
            WHEN a.state IS NULL AND (coalesce(d.status IN ({closed_letters}), false)
              OR {cell}.left_the_archive(k.outbox_id)) THEN false
            WHEN a.state IN ({ended_states}) AND (m.skips OR coalesce(d.status IN ({closed_letters}), true)) THEN false
            ELSE NOT EXISTS (
              SELECT FROM {cell}.payment_operator_log o
              WHERE o.outbox_id = k.outbox_id AND o.act = 'SKIP_IN_ORDER'
                AND (o.detail ->> 'attempt_no')::integer = coalesce(a.attempt_no, 0)) END) s
      ORDER BY k.sequence_id
      LIMIT 1) w ON NOT now_head.claimed
    LEFT JOIN LATERAL (
      SELECT max(c.sequence_id) AS last_no, count(*) AS n
      FROM (
        SELECT r.sequence_id FROM {cell}.payment_outbox_keys r
        WHERE r.participant_id = h.participant_id AND r.sequence_id >= h.floor
          AND w.outbox_id IS NULL AND NOT now_head.claimed
        ORDER BY r.sequence_id LIMIT walk_max) c) passed ON true
  ),
  moved AS (
    UPDATE {cell}.payment_order_lines h
    SET floor = f.floor, head = f.head, head_no = f.head_no, priority = f.priority, ready_at = f.ready_at,
      blocked_by = f.blocked_by,
      blocked_since = CASE WHEN f.blocked_by IS NULL THEN NULL
        WHEN h.head = f.head THEN coalesce(h.blocked_since, clock_timestamp()) ELSE clock_timestamp() END
    FROM found f
    WHERE h.ctid = f.place
      AND (h.floor, h.head, h.priority, h.ready_at, h.blocked_by)
        IS DISTINCT FROM (f.floor, f.head, f.priority, f.ready_at, f.blocked_by)
  )
  SELECT array_agg(a.rail_type) AS rail_type, array_agg(a.participant_id) AS participant_id INTO again
  FROM (
    SELECT f.rail_type, f.participant_id FROM found f WHERE f.goes_on
    UNION ALL
    -- Touched, and locked by another session.
    SELECT w.rail_type, w.participant_id
    FROM unnest(wanted.rail_type, wanted.participant_id) AS w(rail_type, participant_id)
    WHERE (w.rail_type, w.participant_id) IN (SELECT t.r, t.p FROM unnest($1, $2) AS t(r, p))
      AND (w.rail_type, w.participant_id) NOT IN (
        SELECT l.r, l.p FROM unnest(held.rail_type, held.participant_id) AS l(r, p))) a;
  IF again.rail_type IS NOT NULL THEN
    INSERT INTO {cell}.payment_order_marks (rail_type, participant_id)
    SELECT a.rail_type, a.participant_id
    FROM unnest(again.rail_type, again.participant_id) AS a(rail_type, participant_id);
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  END IF;
END
$$;
