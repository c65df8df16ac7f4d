-- Migration 22, strict order. Binaries that need migration 13 or a newer one work on a cell that has it.

CREATE TABLE {cell}.payment_order_lines (
  rail_type text COLLATE "C" NOT NULL,
  participant_id text COLLATE "C" NOT NULL,
  floor bigint NOT NULL DEFAULT 1,
  head uuid,
  head_no bigint,
  priority smallint,
  ready_at timestamptz,
  blocked_by text COLLATE "C",
  blocked_since timestamptz,
  CONSTRAINT payment_order_lines_pk PRIMARY KEY (rail_type, participant_id),
  CONSTRAINT payment_order_lines_head CHECK (floor >= 1 AND (head IS NULL) = (head_no IS NULL)
    AND floor <= coalesce(head_no, floor)
    AND (ready_at IS NULL OR head IS NOT NULL AND priority IS NOT NULL AND blocked_by IS NULL)
    AND (blocked_by IS NULL) = (blocked_since IS NULL))
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
CREATE INDEX payment_order_lines_ready ON {cell}.payment_order_lines (rail_type, priority, ready_at)
  WHERE ready_at IS NOT NULL;
CREATE INDEX payment_order_lines_blocked ON {cell}.payment_order_lines (rail_type, blocked_since)
  WHERE blocked_by IS NOT NULL;
CREATE TRIGGER payment_order_lines_no_truncate BEFORE TRUNCATE ON {cell}.payment_order_lines
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_order_lines ENABLE ALWAYS TRIGGER payment_order_lines_no_truncate;
COMMENT ON TABLE {cell}.payment_order_lines IS
  'The lines of participants on rails that order their instructions, one row each: no instruction below floor is unresolved; head is the lowest unresolved one when the line was last advanced.';
COMMENT ON COLUMN {cell}.payment_order_lines.ready_at IS
  'When the head may be claimed, or since when it is due and the head; null while it is claimed or blocked.';
COMMENT ON COLUMN {cell}.payment_order_lines.blocked_by IS
  'Why the head waits for an operator: the reason of its dead letter, or its state; null: it does not.';

CREATE TABLE {cell}.payment_order_marks (
  rail_type text COLLATE "C" NOT NULL,
  participant_id text COLLATE "C" NOT NULL,
  mark_id uuid NOT NULL DEFAULT gen_random_uuid(),
  sequence_id bigint,
  CONSTRAINT payment_order_marks_pk PRIMARY KEY (rail_type, participant_id, mark_id)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000);
CREATE TRIGGER payment_order_marks_no_truncate BEFORE TRUNCATE ON {cell}.payment_order_marks
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_order_marks ENABLE ALWAYS TRIGGER payment_order_marks_no_truncate;
COMMENT ON TABLE {cell}.payment_order_marks IS
  'The lines to which something has happened since they were advanced: nothing of them is claimed before they are advanced again, which removes the marks.';
COMMENT ON COLUMN {cell}.payment_order_marks.sequence_id IS
  'The number that has returned to pending, at which the walk begins at the latest; null: none has.';

-- function advance_order_lines
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
  arrivals_max CONSTANT integer := 200;
  moment       CONSTANT timestamptz := clock_timestamp();
  walk_max     integer;
  modes        record; -- the order of each rail, as arrays
  seen         uuid[]; -- pending rows that were looked at
  seen_rails   text[]; -- their rails
  seen_of      text[]; -- their participants
  swept        record; -- participants of the rotation, as arrays
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
    SELECT array_agg(q.outbox_id), array_agg(q.rail_type), array_agg(q.participant_id)
    INTO seen, seen_rails, seen_of
    FROM (
      SELECT q.outbox_id, q.rail_type, q.participant_id FROM {cell}.payment_outbox_pending q
      WHERE q.outbox_id > $7 ORDER BY q.outbox_id LIMIT $8) q;
    INSERT INTO {cell}.payment_order_marks (rail_type, participant_id, sequence_id)
    SELECT h.rail_type, h.participant_id, min(k.sequence_id)
    FROM unnest(seen, seen_rails COLLATE "C", seen_of COLLATE "C")
      AS q(outbox_id, rail_type, participant_id)
    JOIN unnest(modes.rail_type, modes.everyone, modes.single) AS m(rail_type, everyone, single)
      ON m.rail_type = q.rail_type
    -- LIMIT keeps it a probe, here and below, whatever the statistics are.
    CROSS JOIN LATERAL (
      SELECT h.rail_type, h.participant_id, h.floor FROM {cell}.payment_order_lines h
      WHERE h.rail_type = q.rail_type AND h.participant_id = q.participant_id LIMIT 1) h
    CROSS JOIN LATERAL (
      SELECT k.sequence_id FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = q.outbox_id LIMIT 1) k
    CROSS JOIN LATERAL ( -- it still is, in the snapshot that has the floor
      SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = q.outbox_id LIMIT 1) p
    WHERE coalesce(m.single ->> q.participant_id, m.everyone) = 'STRICT' AND k.sequence_id < h.floor
      -- A rail that no process claims keeps its marks: one is enough.
      AND (
        SELECT true FROM {cell}.payment_order_marks x
        WHERE x.rail_type = h.rail_type AND x.participant_id = h.participant_id AND x.sequence_id <= k.sequence_id
        LIMIT 1) IS NULL
    GROUP BY h.rail_type, h.participant_id;
  END IF;

  SELECT array_agg(s.rail_type) AS rail_type, array_agg(s.participant_id) AS participant_id,
    array_agg(s.next_sequence_id) AS next_no INTO swept
  FROM (
    SELECT l.rail_type COLLATE "C" AS rail_type, n.participant_id, n.next_sequence_id
    FROM unnest($3, $5) AS l(rail_type, after)
    CROSS JOIN LATERAL (
      SELECT q.participant_id, q.next_sequence_id FROM {cell}.participant_outbox_sequences q
      WHERE q.participant_id > l.after COLLATE "C" ORDER BY q.participant_id LIMIT $6) n) s;

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
    SELECT l.rail_type, q.participant_id
    FROM unnest($3, $4) AS l(rail_type, since)
    CROSS JOIN (VALUES (0::smallint), (1::smallint), (2::smallint)) AS level(priority)
    CROSS JOIN LATERAL (
      SELECT q.rail_type, q.participant_id FROM {cell}.payment_outbox_pending q
      WHERE q.rail_type = l.rail_type COLLATE "C" AND q.priority = level.priority
        AND q.next_attempt_at >= l.since AND q.next_attempt_at <= moment
      ORDER BY q.next_attempt_at LIMIT arrivals_max) q
    WHERE (
      SELECT true FROM {cell}.payment_order_lines h
      WHERE h.rail_type = q.rail_type AND h.participant_id = q.participant_id AND h.head IS NOT NULL LIMIT 1) IS NULL
    UNION
    -- Not those whose head is due: it waits for a slot only.
    SELECT s.rail_type, s.participant_id
    FROM unnest(swept.rail_type, swept.participant_id, swept.next_no) AS s(rail_type, participant_id, next_no)
    LEFT JOIN LATERAL (
      SELECT h.rail_type, h.head, h.floor, h.ready_at FROM {cell}.payment_order_lines h
      WHERE h.rail_type = s.rail_type AND h.participant_id = s.participant_id LIMIT 1) h ON true
    WHERE h.rail_type IS NULL
      OR h.head IS NULL AND h.floor < s.next_no
      OR h.head IS NOT NULL AND (h.ready_at IS NULL OR h.ready_at > moment OR NOT EXISTS (
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
    EXIT WHEN cardinality(held.rail_type) = cardinality(wanted.rail_type) OR wanted.rail_type IS NULL OR attempt = 2;
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
    CROSS JOIN LATERAL (SELECT coalesce(last.state IN ('DISPATCHING', 'INQUIRING'), false) AS claimed) now_head
    LEFT JOIN LATERAL (
      SELECT k.outbox_id, k.sequence_id, s.priority, s.ready_at, s.blocked_by
      FROM (
        SELECT r.outbox_id, r.sequence_id FROM {cell}.payment_outbox_keys r
        WHERE r.participant_id = h.participant_id AND r.sequence_id >= h.floor
        ORDER BY r.sequence_id LIMIT walk_max) k
      CROSS JOIN LATERAL (
        SELECT p.priority, CASE WHEN p.next_attempt_at < 'infinity' THEN p.next_attempt_at END AS ready_at,
          CASE WHEN p.next_attempt_at < 'infinity' OR a.state IN ('DISPATCHING', 'INQUIRING') THEN NULL
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
            WHEN a.state IN ('DISPATCHING', 'INQUIRING') THEN true
            WHEN a.state IS NULL AND (coalesce(d.status IN ('manual_replay', 'resolved'), false)
              OR {cell}.left_the_archive(k.outbox_id)) THEN false
            WHEN a.state IN ('DISPATCHED', 'FAILED', 'CANCELLED') AND (m.skips OR coalesce(d.status IN ('manual_replay', 'resolved'), true)) THEN false
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

  RETURN QUERY
  SELECT l.rail_type,
    CASE WHEN count(s.participant_id) = $6 THEN max(s.participant_id COLLATE "C") ELSE '' END,
    (SELECT array_agg((
        SELECT h.ready_at FROM {cell}.payment_order_lines h
        WHERE h.rail_type = l.rail_type COLLATE "C" AND h.priority = level.priority AND h.ready_at IS NOT NULL
        ORDER BY h.ready_at LIMIT 1) ORDER BY level.priority)
      FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS level(priority)),
    CASE WHEN cardinality(seen) = $8 THEN seen[$8] END
  FROM unnest($3, $5) AS l(rail_type, after)
  LEFT JOIN unnest(swept.rail_type, swept.participant_id) AS s(rail_type, participant_id) ON s.rail_type = l.rail_type
  WHERE l.after IS NOT NULL
  GROUP BY l.rail_type;
END
$$;
-- end of advance_order_lines

-- function append_outbox_row
CREATE OR REPLACE FUNCTION {cell}.append_outbox_row(
  o {cell}.outbox_outcome, attempt_id uuid, attempt_no integer, state text,
  answers_attempt_no integer, outcome_unknown boolean, result text, rail_reference text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  rail text COLLATE "C";
BEGIN
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, participant_id, rail_type, attempt_no, state, answers_attempt_no, claimed_at, completed_at,
      result, rail_reference, rail_code, code_table,
     error_code, error_message, latency_ms, worker_id, profile_version, render_version, outcome_unknown, provisional,
     payload, headers, priority, expires_at, enqueued_at, next_attempt_at, next_action,
     first_sent_at, last_sent_at, send_count, inquiry_count)
  SELECT $2, k.outbox_id, p.participant_id,
    coalesce(
      (SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id ORDER BY a.attempt_no
        LIMIT 1),
      (SELECT r.rail_type FROM {cell}.payment_outbox_pending r WHERE r.outbox_id = k.outbox_id)),
    $3, $4::{cell}.outbox_attempt_state, $5,
    coalesce((SELECT a.claimed_at FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id
      AND a.attempt_no = $5), $1.claimed_at),
    clock_timestamp(), $7, $8, $1.rail_code, $1.code_table,
    CASE WHEN $4 <> 'DISPATCHED' OR $1.error_code = 'RESOLVED' THEN $1.error_code END, $1.error_message, $1.latency_ms,
      $1.worker_id,
    $1.profile_version, coalesce($1.render_version, p.render_version), $6, coalesce($1.provisional, false) AND $6,
    p.payload, p.headers, p.priority, p.expires_at, p.created_at, p.next_attempt_at, p.next_action,
    p.first_sent_at, p.last_sent_at, p.send_count, p.inquiry_count
  FROM {cell}.payment_outbox_keys k
  LEFT JOIN {cell}.payment_outbox_pending p ON p.outbox_id = k.outbox_id AND $4 IN ('DISPATCHED', 'FAILED', 'CANCELLED', 'PARKED')
  WHERE k.outbox_id = $1.outbox_id
  RETURNING rail_type INTO rail;
  PERFORM {cell}.note_order_change($1.outbox_id, rail, $4 IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED'));
  PERFORM {cell}.notify_outcome($1.outbox_id) WHERE $4 = 'DISPATCHED';
END
$$;
-- end of append_outbox_row

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
    -- Of participants that are no longer ordered nothing is kept, because nothing keeps it true.
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
    SELECT apply_rail_profile.rail_type, s.participant_id, coalesce(u.first_no, s.next_sequence_id)
    FROM {cell}.participant_outbox_sequences s
    LEFT JOIN (
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
    WHERE coalesce(apply_rail_profile.profile -> 'order_participants' ->> s.participant_id,
        apply_rail_profile.profile ->> 'order') = 'STRICT'
      AND coalesce(was -> 'order_participants' ->> s.participant_id, was ->> 'order') IS DISTINCT FROM 'STRICT'
    ORDER BY s.participant_id
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

-- function cancel_payment
CREATE OR REPLACE FUNCTION {cell}.cancel_payment(outbox_id uuid, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  waiting {cell}.payment_outbox_pending;
  number  integer;
BEGIN
  PERFORM {cell}.require_reason(cancel_payment.reason);
  PERFORM {cell}.require_settled_server('a cancellation');
  PERFORM {cell}.lock_payment(cancel_payment.outbox_id);
  SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = cancel_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and can''t be cancelled',
        coalesce({cell}.payment_outbox_state(cancel_payment.outbox_id), 'gone from the archive')),
      HINT = 'Only a pending instruction can be cancelled. A claimed one may be on its way to the rail.';
  END IF;
  IF {cell}.put_back_after(cancel_payment.outbox_id) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and was put back in pending: it can''t be cancelled',
        {cell}.put_back_after(cancel_payment.outbox_id)),
      HINT = 'A claim quarantines it. Then close its dead letter, or resolve it if it may have been paid.';
  END IF;
  IF waiting.outcome_unknown THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'some send of the instruction has no trustworthy answer: it may have been paid and can''t be cancelled',
      HINT = 'Wait for the rail''s evidence, or resolve it with evidence of your own once it is parked. payment '
        'reschedule postpones a re-send.';
  END IF;
  DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = cancel_payment.outbox_id;
  number := waiting.attempt_count + 1;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, participant_id, rail_type, attempt_no, state, completed_at, error_message, render_version,
      outcome_unknown, provisional,
     payload, headers, priority, expires_at, enqueued_at, next_attempt_at, next_action,
     first_sent_at, last_sent_at, send_count, inquiry_count)
  VALUES ({cell}.uuidv7(), waiting.outbox_id, waiting.participant_id, waiting.rail_type, number, 'CANCELLED',
    clock_timestamp(), cancel_payment.reason,
    waiting.render_version, false, false, waiting.payload, waiting.headers, waiting.priority, waiting.expires_at,
    waiting.created_at, waiting.next_attempt_at, waiting.next_action, waiting.first_sent_at, waiting.last_sent_at,
    waiting.send_count, waiting.inquiry_count);
  PERFORM {cell}.close_letter(cancel_payment.outbox_id, 'resolved', cancel_payment.reason);
  PERFORM {cell}.note_order_change(waiting.outbox_id, waiting.rail_type, false);
  PERFORM {cell}.notify_outcome(waiting.outbox_id);
  PERFORM {cell}.log_operator_act('CANCEL', {cell}.instruction_of(waiting.outbox_id), waiting.outbox_id,
    cancel_payment.reason);
  RETURN number;
END
$$;
-- end of cancel_payment

-- function close_letter
CREATE OR REPLACE FUNCTION {cell}.close_letter(outbox_id uuid, status text, note text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  rail text COLLATE "C";
BEGIN
  UPDATE {cell}.payment_dead_letters d
  SET status = $2, note = $3, actor = session_user, updated_at = clock_timestamp()
  WHERE d.outbox_id = $1
  RETURNING d.rail_type INTO rail;
  IF FOUND THEN
    PERFORM {cell}.note_order_change($1, rail, false);
  END IF;
END
$$;
-- end of close_letter

-- function inquire_payment
CREATE OR REPLACE FUNCTION {cell}.inquire_payment(outbox_id uuid, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter {cell}.payment_dead_letters;
  last   {cell}.payment_outbox_attempts;
  whole  record;
  sends  record;
  told   record; -- reported sends that a restore forgot
  paused text;
  number integer;
BEGIN
  PERFORM {cell}.require_reason(inquire_payment.reason);
  PERFORM {cell}.lock_payment(inquire_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = inquire_payment.outbox_id FOR UPDATE;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = inquire_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  IF last.state IS DISTINCT FROM 'PARKED' OR {cell}.payment_certainty(inquire_payment.outbox_id,
    {cell}.server_is_settled()) <> 'OUTCOME_UNKNOWN'
    OR letter.reason IS NULL OR letter.reason NOT IN ('OUTCOME_UNKNOWN', 'TAMPERED') OR letter.status IN ('manual_replay', 'resolved')
    OR EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = inquire_payment.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only a parked instruction with an unknown outcome can be inquired about',
        coalesce({cell}.payment_outbox_state(inquire_payment.outbox_id), 'gone from the archive')),
      HINT = 'The rail is asked about a pending instruction without an operator, if it answers inquiries. Compare an '
        'ended instruction with the rail''s statement.';
  END IF;
  IF NOT EXISTS (
    SELECT FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    WHERE r.rail_type = last.rail_type AND (p.profile #>> '{inquiry,max}')::integer > 0)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('rail %s can''t be asked: its profile allows no inquiry', last.rail_type),
      HINT = 'Find out from the rail what became of the payment, then resolve it with that evidence.';
  END IF;
  paused := {cell}.pause_of(last.rail_type, letter.participant_id);
  IF paused IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('%s: no inquiry would be made', paused),
      HINT = 'Resume it, then ask. To resolve the payment as not executed meanwhile, give evidence and use '
        '--rail-silent.';
  END IF;
  -- The latest row with the content that was enqueued. The last row of an instruction that was
  -- stopped as TAMPERED has other content.
  SELECT a.attempt_no, a.participant_id, a.rail_type, a.payload, a.enqueued_at, a.priority, a.expires_at INTO whole
  FROM {cell}.v_outbox_attempts a
  JOIN {cell}.payment_outbox_keys k ON k.outbox_id = a.outbox_id
  WHERE a.outbox_id = inquire_payment.outbox_id AND a.payload IS NOT NULL
  ORDER BY {cell}.payment_outbox_fingerprint(a.participant_id, a.rail_type, a.payload) = k.fingerprint DESC,
    a.attempt_no DESC
  LIMIT 1;
  IF whole.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'no row has the payload any more: it can''t be inquired about',
      HINT = 'Find out from the rail what became of the payment, then resolve it with that evidence.';
  END IF;
  SELECT s.* INTO sends FROM {cell}.known_sends(inquire_payment.outbox_id) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends(inquire_payment.outbox_id) f;

  SELECT max(a.attempt_no) + 1 INTO number FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = inquire_payment.outbox_id;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, error_code, error_message, outcome_unknown,
      provisional)
  VALUES ({cell}.uuidv7(), last.outbox_id, last.rail_type, number, 'UNKNOWN', clock_timestamp(), 'ASKED',
    inquire_payment.reason, true, last.provisional);
  INSERT INTO {cell}.payment_outbox_pending
    (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
      headers, next_action, outcome_unknown, provisional,
     first_sent_at, last_sent_at, send_count, inquiry_count, render_version)
  SELECT last.outbox_id, whole.participant_id, whole.rail_type, copy.payload, number, clock_timestamp(),
    whole.enqueued_at, whole.priority, whole.expires_at, copy.headers, 'INQUIRE', true, last.provisional,
    least(sends.first_at, told.first_at), greatest(sends.last_at, told.last_at), sends.n + told.n,
    (SELECT count(*) FROM {cell}.payment_outbox_attempts q WHERE q.outbox_id = inquire_payment.outbox_id
      AND q.state = 'INQUIRING'),
    sends.render_version
  FROM {cell}.payment_outbox_attempts copy -- only older rows have a payload of their own
  WHERE copy.outbox_id = inquire_payment.outbox_id AND copy.attempt_no = whole.attempt_no;
  PERFORM {cell}.note_order_change(last.outbox_id, last.rail_type, true);
  PERFORM {cell}.log_operator_act('INQUIRE', {cell}.instruction_of(last.outbox_id), last.outbox_id,
    inquire_payment.reason,
    jsonb_build_object('attempt_no', number));
  RETURN number;
END
$$;
-- end of inquire_payment

-- function note_order_change
CREATE OR REPLACE FUNCTION {cell}.note_order_change(outbox_id uuid, rail_type text, back boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  IF $3 THEN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended('{cell}.order_of_rail ' || $2, 0));
  END IF;
  INSERT INTO {cell}.payment_order_marks (rail_type, participant_id, sequence_id)
  SELECT r.rail_type, k.participant_id, CASE WHEN $3 THEN k.sequence_id END
  FROM {cell}.payment_outbox_keys k
  JOIN {cell}.payment_rails r ON r.rail_type = $2
  JOIN {cell}.payment_rail_profiles f ON f.rail_type = r.rail_type AND f.version = r.profile_version
  WHERE k.outbox_id = $1
    -- Above READ COMMITTED the profile may be another since the snapshot.
    AND (coalesce(f.profile -> 'order_participants' ->> k.participant_id, f.profile ->> 'order') = 'STRICT'
      OR $3 AND current_setting('transaction_isolation') <> 'read committed');
  IF FOUND THEN
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  END IF;
END
$$;
-- end of note_order_change

-- function replay_payment
CREATE OR REPLACE FUNCTION {cell}.replay_payment(outbox_id uuid, reason text, expires_at timestamptz DEFAULT NULL)
  RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter     {cell}.payment_dead_letters;
  last       {cell}.payment_outbox_attempts;
  whole      record;
  profile    jsonb;
  version    integer; -- the version of the profile
  sends      record;
  told       record; -- reported sends that a restore forgot
  doubted    boolean; -- some send may still be in progress
  key_window interval; -- the shortest one
  known_for interval; -- the longest key window
  sent_under jsonb;
  number     integer;
BEGIN
  PERFORM {cell}.require_reason(replay_payment.reason);
  PERFORM {cell}.require_settled_server('a replay');
  IF replay_payment.expires_at <= clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH006', MESSAGE = 'expires_at is already past',
      HINT = 'Give a later time, or none.';
  END IF;
  PERFORM {cell}.lock_payment(replay_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = replay_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and has no dead letter to replay',
        coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive'));
  END IF;
  -- The operator who closed it may have asked the participant to pay in another way.
  IF letter.status IN ('manual_replay', 'resolved') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and its dead letter is already closed (%s)',
        coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive'), letter.status),
      HINT = 'The participant enqueues the payment again as a new instruction, if it is still wanted and was not made.';
  END IF;

  IF letter.reason = 'UNCLAIMABLE' THEN
    IF {cell}.put_back_after(replay_payment.outbox_id) IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the instruction is %s and was put back in pending: it can''t be replayed',
          {cell}.put_back_after(replay_payment.outbox_id)),
        HINT = 'Close its dead letter, or resolve it if it may have been paid.';
    END IF;
    UPDATE {cell}.payment_outbox_pending p
    SET next_attempt_at = clock_timestamp(), expires_at = coalesce(replay_payment.expires_at, p.expires_at)
    WHERE p.outbox_id = replay_payment.outbox_id
    RETURNING p.attempt_count INTO number;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the instruction is %s and has no row in pending: it can''t be replayed',
          coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive')),
        HINT = 'Find out who removed the row. Find out from the rail what became of the payment, then resolve it with '
          'that evidence.';
    END IF;
    PERFORM {cell}.close_letter(replay_payment.outbox_id, 'manual_replay', replay_payment.reason);
    PERFORM {cell}.note_order_change(replay_payment.outbox_id, letter.rail_type, true);
    PERFORM {cell}.log_operator_act('REPLAY', letter.instruction_id, replay_payment.outbox_id, replay_payment.reason);
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN number;
  END IF;

  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = replay_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT a.attempt_no, a.participant_id, a.rail_type, a.payload, a.enqueued_at, a.priority INTO whole
  FROM {cell}.v_outbox_attempts a
  WHERE a.outbox_id = replay_payment.outbox_id AND a.payload IS NOT NULL ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT p.profile, p.version INTO profile, version
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  WHERE r.rail_type = last.rail_type;
  -- The sends that may have reached the rail, whatever their outcome.
  SELECT s.* INTO sends FROM {cell}.known_sends(replay_payment.outbox_id) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends(replay_payment.outbox_id) f;

  IF letter.reason NOT IN ('FAILED', 'EXPIRED') AND NOT (
    letter.reason = 'OUTCOME_UNKNOWN' AND last.state = 'PARKED'
    AND {cell}.inquiry_said_not_executed(replay_payment.outbox_id, profile, sends.first_at, sends.last_at))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('a dead letter of reason %s can''t be replayed: %s', letter.reason,
        CASE letter.reason WHEN 'TAMPERED' THEN 'its payload is not the one that was enqueued'
          ELSE 'the payment may have been made' END),
      HINT = CASE WHEN letter.reason = 'OUTCOME_UNKNOWN'
        AND clock_timestamp() - sends.first_at >= (profile #>> '{inquiry,not_found_until}')::interval
          THEN 'Its first send is older than inquiry.not_found_until of the profile: the rail''s "no such '
            'payment" no longer proves anything. ' ELSE '' END
        || 'Find out from the rail what became of it, then resolve it with that evidence. Only "not executed" may be '
          'replayed after that.';
  END IF;
  IF last.state IS NULL OR last.state NOT IN ('FAILED', 'PARKED') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and can''t be replayed',
        coalesce(last.state::text, 'gone from the archive'));
  END IF;
  IF EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id AND a.state = 'DISPATCHED')
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction was DISPATCHED once, and gets no second DISPATCHED row: it can''t be replayed',
      HINT = 'The participant enqueues the payment again as a new instruction.';
  END IF;
  -- A send that became known after the instruction was FAILED, or was resolved as not executed, has
  -- no answer, unless the rail answered for the whole payment. The rail may also have reported the
  -- execution since.
  IF EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id AND a.attempt_no > last.attempt_no AND a.state = 'LATE_OUTCOME'
      AND (a.result = 'EXECUTED' OR (last.result IS DISTINCT FROM 'REFUSED'
        OR last.error_code IS NOT DISTINCT FROM 'RESOLVED')
        AND (a.result IN ('ACCEPTED', 'UNKNOWN', 'IN_PROGRESS') OR a.outcome_unknown AND NOT last.outcome_unknown)))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('what became known after row %s called it %s contradicts that: the payment may have been made',
        last.attempt_no, last.state),
      HINT = 'Find out from the rail. If it was not made, close the dead letter, and the participant enqueues it '
        'again as a new instruction.';
  END IF;
  IF whole.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'no row has the payload any more: it can''t be replayed',
      HINT = 'The participant enqueues the payment again as a new instruction.';
  END IF;
  IF {cell}.payment_outbox_fingerprint(whole.participant_id, whole.rail_type, whole.payload) <> (
    SELECT k.fingerprint FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = replay_payment.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the payload is not the one that was enqueued: it can''t be replayed',
      HINT = 'Find out who changed it. The participant enqueues the payment again as a new instruction.';
  END IF;
  IF sends.n + told.n > 0 AND coalesce(profile ->> 'id_after_refusal', 'NEW') = 'NEW' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('it may have been sent, and rail %s requires a new id for another try, and a replay keeps the old one',
        last.rail_type),
      HINT = 'The participant enqueues the payment again as a new instruction.';
  END IF;

  -- "No such payment" allows a send, but does not answer the earlier sends. Under the same key the
  -- new send takes their place, but only inside the key window. If the rail remembers no keys, the
  -- operator is responsible.
  doubted := last.state = 'PARKED' AND last.outcome_unknown;
  -- The strictest rule of the profiles under which it was sent applies.
  sent_under := coalesce({cell}.rules_of_sends(replay_payment.outbox_id), '[]') || profile;
  SELECT min(w), max(w) INTO key_window, known_for
  FROM (SELECT coalesce((r ->> 'key_window')::interval, '0s') AS w FROM jsonb_array_elements(sent_under) r) r;
  IF doubted AND (SELECT bool_and(coalesce(r ->> 'resend_on_unknown', 'NEVER') = 'SAME_KEY')
    FROM jsonb_array_elements(sent_under) r)
    -- For a send that was made before an acceptance of a timeline, the key may be as old as the
    -- earliest forgotten send (payment.Claim.Weigh).
    AND (
      SELECT f.at <= clock_timestamp() AND f.at > clock_timestamp() - (key_window - least(key_window / 10,
        interval '5 minutes'))
      FROM (SELECT {cell}.key_since(replay_payment.outbox_id, known_for + least(known_for / 10, interval '5 minutes'),
        least(sends.first_at, told.first_at, (
        SELECT min(s.known_until) FROM {cell}.payment_outbox_suspensions s
        WHERE sends.first_at > s.known_until
          AND (s.accepted_at IS NULL OR sends.first_at < s.accepted_at)))) AS at) f) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('its key window is over, or not known: rail %s may no longer remember the key, and pay twice',
        last.rail_type),
      HINT = 'Find out from the rail what became of it, then resolve it with that evidence. Only "not executed" may '
        'be replayed after that.';
  END IF;

  -- The pending row of an ended instruction was put back.
  DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = replay_payment.outbox_id;
  SELECT max(a.attempt_no) + 1 INTO number FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, profile_version, error_message, outcome_unknown,
      provisional)
  VALUES ({cell}.uuidv7(), last.outbox_id, last.rail_type, number, 'REPLAYED', clock_timestamp(), version,
    replay_payment.reason, doubted, false);
  INSERT INTO {cell}.payment_outbox_pending
    (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
      headers,
     outcome_unknown, first_sent_at, last_sent_at, render_version)
  SELECT last.outbox_id, whole.participant_id, whole.rail_type, copy.payload, number, clock_timestamp(),
    whole.enqueued_at, whole.priority, replay_payment.expires_at, copy.headers, doubted,
    least(sends.first_at, told.first_at), greatest(sends.last_at, told.last_at), sends.render_version
  FROM {cell}.payment_outbox_attempts copy -- only older rows have a payload of their own
  WHERE copy.outbox_id = replay_payment.outbox_id AND copy.attempt_no = whole.attempt_no;
  PERFORM {cell}.close_letter(replay_payment.outbox_id, 'manual_replay', replay_payment.reason);
  PERFORM {cell}.note_order_change(last.outbox_id, last.rail_type, true);
  PERFORM {cell}.log_operator_act('REPLAY', {cell}.instruction_of(last.outbox_id), last.outbox_id,
    replay_payment.reason,
    jsonb_build_object('letter', letter.reason, 'attempt_no', number));
  RETURN number;
END
$$;
-- end of replay_payment

-- function reschedule_payment
CREATE OR REPLACE FUNCTION {cell}.reschedule_payment(
  outbox_id uuid, due_at timestamptz, reason text, OUT was_due_at timestamptz, OUT is_due_at timestamptz) RETURNS record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  waiting {cell}.payment_outbox_pending;
  profile jsonb;
  moment  timestamptz := clock_timestamp();
BEGIN
  PERFORM {cell}.require_reason(reschedule_payment.reason);
  IF reschedule_payment.due_at > moment + interval '366 days' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a due time is at most 366 days ahead',
      HINT = 'To delay instructions for longer, pause their participant or rail.';
  END IF;
  PERFORM {cell}.lock_payment(reschedule_payment.outbox_id);
  SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p
    WHERE p.outbox_id = reschedule_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only a pending instruction has a due time',
        coalesce({cell}.payment_outbox_state(reschedule_payment.outbox_id), 'gone from the archive')),
      HINT = 'A claimed instruction may be on its way to the rail. Use payment inquire for a parked one, and dead-letter replay for '
        'one that has failed.';
  END IF;
  IF {cell}.put_back_after(reschedule_payment.outbox_id) IS NOT NULL OR waiting.next_attempt_at = 'infinity' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction could not be claimed and is quarantined: a due time does not change that',
      HINT = 'Correct the cause that its dead letter names, then replay it.';
  END IF;

  moment := greatest(reschedule_payment.due_at, moment);
  IF waiting.next_action = 'INQUIRE' THEN
    SELECT p.profile INTO profile
    FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    WHERE r.rail_type = waiting.rail_type;
    IF coalesce((profile #>> '{inquiry,max}')::integer, 0) = 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('rail %s can''t be asked: the instruction waits for the rail''s callback', waiting.rail_type),
        HINT = 'It is parked at its callback_deadline. An answer of the rail before then ends it.';
    END IF;
    moment := greatest(moment, waiting.last_sent_at + coalesce((profile #>> '{inquiry,not_before}')::interval,
      interval '0'));
  END IF;
  IF waiting.next_action = 'SEND' AND moment >= waiting.expires_at THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('it expires at %s and would not be sent', waiting.expires_at),
      HINT = CASE WHEN waiting.expires_at > clock_timestamp() THEN 'Choose an earlier time.'
        ELSE 'The reaper ends it.' END;
  END IF;

  UPDATE {cell}.payment_outbox_pending p SET next_attempt_at = moment WHERE p.outbox_id = reschedule_payment.outbox_id;
  PERFORM {cell}.log_operator_act(CASE WHEN reschedule_payment.due_at IS NULL THEN 'SEND_NOW' ELSE 'RESCHEDULE' END,
    {cell}.instruction_of(waiting.outbox_id), waiting.outbox_id, reschedule_payment.reason,
    jsonb_build_object('from', waiting.next_attempt_at, 'to', moment, 'rows', waiting.attempt_count));
  PERFORM {cell}.note_order_change(waiting.outbox_id, waiting.rail_type, true);
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  was_due_at := waiting.next_attempt_at;
  is_due_at := moment;
END
$$;
-- end of reschedule_payment

-- function skip_in_order
CREATE OR REPLACE FUNCTION {cell}.skip_in_order(outbox_id uuid, reason text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  number bigint;
  line   {cell}.payment_order_lines;
  last   record;
BEGIN
  PERFORM {cell}.require_reason(skip_in_order.reason);
  PERFORM {cell}.lock_payment(skip_in_order.outbox_id);
  SELECT k.sequence_id INTO number FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = skip_in_order.outbox_id;
  SELECT a.state, a.attempt_no INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = skip_in_order.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT h.* INTO line
  FROM {cell}.payment_outbox_keys k
  CROSS JOIN {cell}.payment_rails r
  JOIN {cell}.payment_order_lines h ON h.rail_type = r.rail_type AND h.participant_id = k.participant_id
  WHERE k.outbox_id = skip_in_order.outbox_id AND h.head = k.outbox_id
    AND NOT EXISTS (
      SELECT FROM {cell}.payment_operator_log l
      WHERE l.outbox_id = k.outbox_id AND l.act = 'SKIP_IN_ORDER'
        AND (l.detail ->> 'attempt_no')::integer = coalesce(last.attempt_no, 0));
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction is not the head of a line: none waits behind it because of its order',
      HINT = 'payment show of an instruction that waits names the one before it.';
  END IF;
  IF line.floor < number OR EXISTS (
    SELECT FROM {cell}.payment_order_marks m
    WHERE m.rail_type = line.rail_type AND m.participant_id = line.participant_id AND m.sequence_id < number)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'one with a lower number has returned to pending, and goes before the instruction: it can''t be skipped now',
      HINT = 'Skip it once it is the head again. payment show of an instruction that waits names the one before it.';
  END IF;
  IF EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = skip_in_order.outbox_id)
    OR last.state IN ('DISPATCHING', 'INQUIRING')
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only one that has ended or is parked can be skipped',
        {cell}.payment_outbox_state(skip_in_order.outbox_id)),
      HINT = 'Cancel it, or change its due time with payment reschedule. One that is quarantined is replayed, cancelled '
        'or resolved.';
  END IF;
  PERFORM {cell}.log_operator_act('SKIP_IN_ORDER', {cell}.instruction_of(skip_in_order.outbox_id),
    skip_in_order.outbox_id, skip_in_order.reason,
    jsonb_build_object('sequence_id', number, 'attempt_no', coalesce(last.attempt_no, 0), 'state', last.state,
      'blocked_by', line.blocked_by));
  PERFORM {cell}.note_order_change(skip_in_order.outbox_id, line.rail_type, false);
  RETURN number;
END
$$;
-- end of skip_in_order

-- view v_order_heads
CREATE OR REPLACE VIEW {cell}.v_order_heads AS
SELECT h.rail_type, h.participant_id, h.head AS outbox_id, h.head_no AS sequence_id, h.ready_at, h.blocked_by,
  h.blocked_since, coalesce((
    SELECT true FROM {cell}.payment_order_marks m
    WHERE m.rail_type = h.rail_type AND m.participant_id = h.participant_id
    LIMIT 1), false) AS marked
FROM {cell}.payment_order_lines h
JOIN {cell}.payment_rails r ON r.rail_type = h.rail_type
JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
WHERE h.head IS NOT NULL
  AND coalesce(p.profile -> 'order_participants' ->> h.participant_id, p.profile ->> 'order') = 'STRICT';
COMMENT ON VIEW {cell}.v_order_heads IS
  'The instruction behind which the others of its participant wait on its rail, for each participant that the profile in force orders. ready_at is since when, or when, it may be claimed, blocked_by why it waits for an operator; both are null while it is claimed. marked: something has happened to the line since.';
-- end of v_order_heads

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 22, serves 13'
$$;
-- end of schema_version
