-- Migration 28, moves. Binaries that need migration 13 or a newer one work on a cell that has it.

-- A bucket is moved with the keys and numbers of its participants. Their payments stay where they are.
-- First the table that each enqueue locks first: in another order the two would wait for each other.
ALTER TABLE {cell}.participant_outbox_sequences ADD COLUMN moved_in boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN {cell}.participant_outbox_sequences.moved_in IS
  'Whether the participant came with its bucket from another cell, or came back: each of its instructions is then '
  'compared with the keys that came with it (payment_arrived_keys).';

ALTER TABLE {cell}.payment_buckets ADD COLUMN leaving integer;
COMMENT ON COLUMN {cell}.payment_buckets.leaving IS
  'The version that the gift will have by which the bucket is being moved to another cell: while it is one above '
  'version, this cell takes no participant of the bucket. With every other change it says nothing any more.';
ALTER TABLE {cell}.payment_cell_changes ADD COLUMN digest text COLLATE "C" NOT NULL DEFAULT '';
COMMENT ON COLUMN {cell}.payment_cell_changes.digest IS
  'SHA-256 over the participants and keys that were packed in the cell that gave the bucket (moved_digest): the new '
  'one takes it once it has stored exactly these. Empty: there were none.';

CREATE TABLE {cell}.payment_bucket_moves (
  bucket       integer          NOT NULL,
  version      integer          NOT NULL,
  cell         text COLLATE "C" NOT NULL,
  reason       text COLLATE "C" NOT NULL,
  begun_by     text COLLATE "C" NOT NULL DEFAULT session_user,
  begun_at     timestamptz      NOT NULL DEFAULT clock_timestamp(),
  packed_at    timestamptz,
  participants integer,
  keys         bigint,
  digest       text COLLATE "C",
  CONSTRAINT payment_bucket_moves_pk PRIMARY KEY (bucket, version),
  CONSTRAINT payment_bucket_moves_bucket FOREIGN KEY (bucket) REFERENCES {cell}.payment_buckets,
  CONSTRAINT payment_bucket_moves_cell FOREIGN KEY (cell) REFERENCES {cell}.payment_cells,
  CONSTRAINT payment_bucket_moves_packed CHECK (version >= 1
    AND num_nulls(packed_at, participants, keys, digest) IN (0, 4) AND digest ~ '^[0-9a-f]{64}$')
);
COMMENT ON TABLE {cell}.payment_bucket_moves IS
  'The moves of buckets from this cell to others, by the version that the gift has, or will have. A move that an '
  'operator ends before the gift leaves no row.';
CREATE TABLE {cell}.payment_packed_participants (
  bucket           integer          NOT NULL,
  version          integer          NOT NULL,
  participant_id   text COLLATE "C" NOT NULL,
  next_sequence_id bigint           NOT NULL,
  moved_in         boolean          NOT NULL,
  CONSTRAINT payment_packed_participants_pk PRIMARY KEY (bucket, version, participant_id),
  CONSTRAINT payment_packed_participants_positive CHECK (next_sequence_id >= 1)
);
CREATE INDEX payment_packed_participants_one ON {cell}.payment_packed_participants (participant_id);
COMMENT ON TABLE {cell}.payment_packed_participants IS
  'The participants that left this cell with their bucket, with the number that each had next. They stay, so that '
  'the other cell can store them again if it is restored.';
CREATE TABLE {cell}.payment_arrivals (
  bucket      integer          NOT NULL,
  version     integer          NOT NULL,
  digest      text COLLATE "C" NOT NULL,
  complete_at timestamptz,
  taken_at    timestamptz,
  CONSTRAINT payment_arrivals_pk PRIMARY KEY (bucket, version),
  CONSTRAINT payment_arrivals_complete CHECK (taken_at IS NULL OR complete_at IS NOT NULL)
);
COMMENT ON TABLE {cell}.payment_arrivals IS
  'The moves of buckets to this cell: what is stored of them was compared with the digest at complete_at, and is in '
  'force since taken_at, when the cell took the bucket.';
CREATE TABLE {cell}.payment_arrived_participants (
  bucket           integer          NOT NULL,
  version          integer          NOT NULL,
  participant_id   text COLLATE "C" NOT NULL,
  next_sequence_id bigint           NOT NULL,
  CONSTRAINT payment_arrived_participants_pk PRIMARY KEY (bucket, version, participant_id),
  CONSTRAINT payment_arrived_participants_positive CHECK (next_sequence_id >= 1)
);
COMMENT ON TABLE {cell}.payment_arrived_participants IS
  'The participants that came to this cell with their bucket, with the number that each had next.';
CREATE TABLE {cell}.payment_arrived_keys (
  bucket          integer          NOT NULL,
  version         integer          NOT NULL,
  outbox_id       uuid             NOT NULL,
  sequence_id     bigint           NOT NULL,
  created_at      timestamptz      NOT NULL,
  participant_id  text COLLATE "C" NOT NULL,
  instruction_id  text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  fingerprint     bytea            NOT NULL,
  CONSTRAINT payment_arrived_keys_pk PRIMARY KEY (bucket, version, outbox_id),
  CONSTRAINT payment_arrived_keys_fingerprint_sha256 CHECK (octet_length(fingerprint) = 32)
);
CREATE INDEX payment_arrived_keys_payment ON {cell}.payment_arrived_keys (outbox_id);
CREATE INDEX payment_arrived_keys_once ON {cell}.payment_arrived_keys (instruction_id, idempotency_key);
CREATE INDEX payment_arrived_keys_sequence ON {cell}.payment_arrived_keys (participant_id, sequence_id, outbox_id);
CREATE INDEX payment_arrived_keys_api ON {cell}.payment_arrived_keys (idempotency_key)
  WHERE idempotency_key LIKE 'api-%';
COMMENT ON TABLE {cell}.payment_arrived_keys IS
  'The keys of instructions that were enqueued in another cell, before their participant came to this one: a repeated '
  'call is answered by them. The payments are in the other cell.';
CREATE TRIGGER payment_bucket_moves_no_truncate
  BEFORE TRUNCATE ON {cell}.payment_bucket_moves
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_bucket_moves ENABLE ALWAYS TRIGGER payment_bucket_moves_no_truncate;
CREATE TRIGGER payment_packed_participants_no_truncate
  BEFORE TRUNCATE ON {cell}.payment_packed_participants
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_packed_participants ENABLE ALWAYS TRIGGER payment_packed_participants_no_truncate;
CREATE TRIGGER payment_arrivals_no_truncate
  BEFORE TRUNCATE ON {cell}.payment_arrivals
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_arrivals ENABLE ALWAYS TRIGGER payment_arrivals_no_truncate;
CREATE TRIGGER payment_arrived_participants_no_truncate
  BEFORE TRUNCATE ON {cell}.payment_arrived_participants
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_arrived_participants ENABLE ALWAYS TRIGGER payment_arrived_participants_no_truncate;
CREATE TRIGGER payment_arrived_keys_no_truncate
  BEFORE TRUNCATE ON {cell}.payment_arrived_keys
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_arrived_keys ENABLE ALWAYS TRIGGER payment_arrived_keys_no_truncate;

-- function accept_timeline
CREATE OR REPLACE FUNCTION {cell}.accept_timeline(reason text, since timestamptz DEFAULT NULL)
RETURNS TABLE (system_identifier text, timeline bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
AS $$
DECLARE
  suspended {cell}.payment_outbox_suspensions; -- the open one
  shape     CONSTANT text := 'YYYY-MM-DD"T"HH24:MI:SS"Z"';
  what      text; -- what has to be compared
  foreigners record;
BEGIN
  PERFORM {cell}.require_reason(accept_timeline.reason);
  SELECT s.system_identifier::text INTO accept_timeline.system_identifier FROM pg_control_system() s;
  accept_timeline.timeline := {cell}.server_timeline();
  SELECT s.* INTO suspended FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL FOR UPDATE;
  what := CASE WHEN suspended.known_until > '-infinity' THEN 'was sent since ' || to_char(suspended.known_until, shape)
    ELSE 'was ever sent' END;
  IF suspended.suspension_id IS NULL THEN
    IF since IS NOT NULL AND NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s WHERE date_trunc('second', s.opened_at) = date_trunc('second',
        since))
    THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('no suspension is open, and none was opened at %s', to_char(since, shape)),
        HINT = 'See opened_at of payment_outbox_suspensions. If the server has forgotten it, a relayer finds that out '
          'within seconds.';
    END IF;
    IF EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.kind = 'relayer') AND NOT {cell}.server_is_settled() THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'the server was started or promoted, and no relayer has confirmed since that nothing is missing: '
          'what it may have forgotten is not known yet',
        HINT = 'Start a relayer, or wait until one has compared the server with what it remembers. If lanes are '
          'suspended then, compare with the rails what was sent since known_until of payment_outbox_suspensions, '
          'and repeat this.';
    END IF;
  ELSIF (suspended.system_identifier, suspended.timeline, suspended.server_started_at)
    IS DISTINCT FROM (accept_timeline.system_identifier, accept_timeline.timeline, pg_postmaster_start_time())
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the server was started or promoted after the suspension was opened, and no relayer has checked it '
        'since: it may have forgotten more than you have compared',
      HINT = 'Start a relayer, or wait some seconds until one has checked the server. Then compare with the rails '
        'what was sent since known_until of payment_outbox_suspensions, and repeat this.';
  ELSIF since IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('lanes have been suspended since %s: confirm that you have compared with the rails for this suspension', to_char(suspended.opened_at, shape)),
      HINT = format('Compare with the rails what %s, then repeat this with --since %s.', what,
        to_char(suspended.opened_at, shape));
  ELSIF date_trunc('second', suspended.opened_at) <> date_trunc('second', since) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('lanes have been suspended since %s, but you have compared the suspension of %s: the server may have gone back again since, and forgotten the acts by which you ended payments',
        to_char(suspended.opened_at, shape), to_char(since, shape)),
      HINT = format('Compare with the rails again what %s, then repeat this with --since %s.', what,
        to_char(suspended.opened_at, shape));
  END IF;
  IF EXISTS (SELECT FROM {cell}.payment_cells) AND NOT {cell}.server_is_settled() THEN
    PERFORM {cell}.require_confirmed_map('accepting the server');
    SELECT count(*) AS n, min(p.participant_id) AS first INTO foreigners
    FROM {cell}.payment_outbox_pending p
    JOIN {cell}.payment_buckets b ON b.bucket = {cell}.cell_bucket(p.participant_id)
    WHERE (b.contradicted OR b.cell IS DISTINCT FROM (SELECT c.name FROM {cell}.payment_cells c WHERE c.here))
      AND NOT EXISTS (
        -- Its key went along with the bucket, and no other cell has taken that without keys since.
        SELECT FROM {cell}.payment_packed_participants m
        JOIN {cell}.payment_bucket_moves v ON v.bucket = m.bucket AND v.version = m.version
        JOIN {cell}.payment_cell_changes c ON c.bucket = m.bucket AND c.version = m.version AND c.digest = v.digest
        JOIN {cell}.payment_outbox_keys k ON k.outbox_id = p.outbox_id AND k.sequence_id < m.next_sequence_id
        WHERE m.participant_id = p.participant_id AND NOT EXISTS (
          SELECT FROM {cell}.payment_cell_changes s
          WHERE s.bucket = m.bucket AND s.version >= m.version AND s.settles))
      AND NOT EXISTS (SELECT FROM {cell}.payment_paused_participants h WHERE h.participant_id = p.participant_id);
    IF foreigners.n > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('%s pending payments are of participants of other cells, such as %s: the same keys may be enqueued there',
          foreigners.n, quote_literal(foreigners.first)),
        HINT = 'Pause these participants here (railhead participant pause), repeat this, compare each payment with the '
          'other cell, and cancel it here if that has enqueued it, too. One that it answers with ELSEWHERE and the '
          'outbox_id of this cell is only here; with another outbox_id it is in a third cell, too.';
    END IF;
  END IF;
  INSERT INTO {cell}.payment_accepted_timelines (system_identifier, timeline, reason)
  VALUES (accept_timeline.system_identifier, accept_timeline.timeline, accept_timeline.reason)
  ON CONFLICT DO NOTHING;
  UPDATE {cell}.payment_outbox_suspensions s
  SET accepted_at = clock_timestamp(), accepted_by = session_user, reason = accept_timeline.reason
  WHERE s.suspension_id = suspended.suspension_id;
  INSERT INTO {cell}.payment_operator_log (act, subject, reason, detail)
  VALUES ('ACCEPT_TIMELINE', format('%s/%s', accept_timeline.system_identifier, accept_timeline.timeline),
    accept_timeline.reason,
    jsonb_strip_nulls(jsonb_build_object('suspension_id', suspended.suspension_id)));
  RETURN NEXT;
END
$$;
-- end of accept_timeline

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
        SELECT a.state IN ('DISPATCHING', 'INQUIRING') FROM {cell}.payment_outbox_attempts a
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
END
$$;
-- end of advance_order_lines

-- function api_enqueue
CREATE OR REPLACE FUNCTION {cell}.api_enqueue(
  tokens bytea[], certificates bytea[], instruction_ids text[], participant_ids text[], idempotency_keys text[],
    rail_types text[], payloads jsonb[],
  not_befores timestamptz[], expires_ats timestamptz[], priorities integer[], headers jsonb[], send_onces boolean[],
    principals text[], waits boolean DEFAULT false)
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  replayed boolean, error_code text, error_message text, error_hint text, differs text[], error_field text,
    error_rule text, error_detail text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET enable_nestloop = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  n         CONSTANT integer := cardinality(tokens);
  token     {cell}.payment_api_tokens; -- of a single item
  token_ids text[];    -- of each item whose token is known
  faults    jsonb[];   -- of each item that is refused here
  refused   boolean;   -- whether there are such items
  digests   text[];    -- what the registry stores in place of each key
  places    integer[]; -- the original position of each item that is not refused
  fresh     integer[] := '{}'; -- the items that this call enqueues
  fresh_ids uuid[] := '{}';    -- their outbox_ids
  comers    text[] COLLATE "C" := '{}'; -- the participants that came from another cell, with their keys
  other     uuid;    -- an instruction that has used the key in another cell
  kept      integer;
BEGIN
  IF (SELECT s.allow_second_key FROM {cell}.payment_outbox_settings s WHERE s.singleton) IS NOT FALSE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH032',
      MESSAGE = 'the cell allows second keys and therefore accepts nothing over HTTP',
      HINT = 'A key by SQL and the same key over HTTP would be two payments: set '
        'payment_outbox_settings.allow_second_key to false.';
  END IF;
  IF (n = ALL (ARRAY[cardinality(certificates), cardinality(instruction_ids), cardinality(participant_ids),
    cardinality(idempotency_keys),
    cardinality(rail_types), cardinality(payloads), cardinality(not_befores), cardinality(expires_ats),
    cardinality(priorities), cardinality(headers), cardinality(send_onces), cardinality(principals)])) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'the arrays of a batch must not be null, and must have the same length';
  END IF;
  IF n = 0 THEN
    RETURN;
  END IF;

  -- An item that is refused here, or whose key is known, takes the path for many items, which
  -- reports the reason.
  IF n = 1 AND waits THEN
    SELECT t.* INTO token FROM {cell}.payment_api_tokens t WHERE t.token_digest = sha256(tokens[1]);
    IF {cell}.api_token_refusal(token, certificates[1], 'ENQUEUE', participant_ids[1]) IS NULL
      AND idempotency_keys[1] ~ '^[!-~]([ -~]{0,126}[!-~])?$'
        AND coalesce(principals[1] ~ '^[!-~]([ -~]{0,126}[!-~])?$', true)
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_api_calls c
        WHERE c.participant_id = participant_ids[1] COLLATE "C" AND c.idempotency_key = idempotency_keys[1] COLLATE "C")
    THEN
      item := 1;
      BEGIN
        SELECT e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.differs
        INTO STRICT outbox_id, sequence_id, created_at, state, replayed, differs
        FROM {cell}.enqueue_payment_outbox(instruction_ids[1], participant_ids[1],
          {cell}.api_key_digest(participant_ids[1], idempotency_keys[1]),
          rail_types[1], payloads[1], not_befores[1], expires_ats[1], priorities[1], headers[1], send_onces[1]) e;
        -- this transaction has locked the participant's row: a row that is there was committed by another
        IF NOT replayed THEN
          INSERT INTO {cell}.payment_api_calls (outbox_id, participant_id, idempotency_key, token_id, on_behalf_of)
          VALUES (outbox_id, participant_ids[1], idempotency_keys[1], token.token_id, principals[1])
          ON CONFLICT DO NOTHING;
          IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = '40001',
              MESSAGE = 'a key of this call was used for another instruction meanwhile',
                HINT = 'Retry the transaction.';
          END IF;
          -- Only now that its row is locked, it is certain what the participant has brought along.
          SELECT c.outbox_id INTO other
          FROM {cell}.participant_outbox_sequences s
          CROSS JOIN LATERAL {cell}.carried_key(participant_ids[1], idempotency_keys[1]) c
          WHERE s.participant_id = participant_ids[1] COLLATE "C" AND s.moved_in;
          IF FOUND THEN
            RAISE EXCEPTION USING
              ERRCODE = 'RH001',
              MESSAGE = 'this idempotency_key was first used for another instruction_id',
              COLUMN = 'idempotency_key', CONSTRAINT = 'SAME_CONTENT',
              DETAIL = format('The first instruction is outbox_id %s.', other),
              HINT = 'Repeat a call with exactly the content of the first one. A different payment needs its own '
                'idempotency_key.';
          END IF;
        END IF;
      EXCEPTION WHEN OTHERS THEN
        IF SQLSTATE NOT LIKE 'RH%' THEN
          RAISE;
        END IF;
        GET STACKED DIAGNOSTICS error_code = RETURNED_SQLSTATE, error_message = MESSAGE_TEXT,
          error_hint = PG_EXCEPTION_HINT, error_field = COLUMN_NAME, error_rule = CONSTRAINT_NAME,
          error_detail = PG_EXCEPTION_DETAIL;
        SELECT NULL, NULL, NULL, NULL, NULL, NULL INTO outbox_id, sequence_id, created_at, state, replayed, differs;
      END;
      RETURN NEXT;
      RETURN;
    END IF;
  END IF;

  IF (SELECT r.own_buckets IS NOT NULL FROM {cell}.payment_outbox_rules r WHERE r.singleton) THEN
    comers := ARRAY(
      SELECT p.participant_id
      FROM (SELECT DISTINCT p.participant_id FROM unnest(participant_ids COLLATE "C") AS p(participant_id)) p
      CROSS JOIN LATERAL (
        SELECT s.moved_in FROM {cell}.participant_outbox_sequences s
        WHERE s.participant_id = p.participant_id LIMIT 1) s
      WHERE s.moved_in);
  END IF;
  -- Each token is looked up once, and its participants are unpacked once, for all of its items.
  WITH shown AS MATERIALIZED (
    SELECT d.token, t.token_id, t.row
    FROM (SELECT DISTINCT a.token FROM unnest(tokens) AS a(token)) d
    CROSS JOIN LATERAL (
      SELECT t.token_id, t AS row FROM {cell}.payment_api_tokens t WHERE t.token_digest = sha256(d.token) LIMIT 1) t
  )
  SELECT array_agg(j.token_id), array_agg(j.fault),
    array_agg({cell}.api_key_digest(j.participant_id, j.idempotency_key)), bool_or(j.fault IS NOT NULL)
  INTO token_ids, faults, digests, refused
  FROM (
    SELECT a.token_id, a.participant_id, a.idempotency_key, coalesce(a.fault,
      CASE WHEN known.instruction_id <> a.instruction_id OR a.first_instruction <> a.instruction_id THEN
        jsonb_build_object('code', 'RH001', 'message', 'this idempotency_key was first used for another instruction_id',
          'hint', 'Repeat a call with exactly the content of the first one. A different payment needs its own idempotency_key.',
          'field', 'idempotency_key', 'rule', 'SAME_CONTENT',
          'detail', 'The first instruction is outbox_id ' || known.outbox_id || '.') END) AS fault
    FROM (
      -- A refused item does not use its key: a caller without a right to it may have sent it.
      SELECT a.*, first_value(a.instruction_id) OVER (PARTITION BY a.participant_id,
        a.idempotency_key, a.fault IS NULL ORDER BY a.item) AS first_instruction
      FROM (
        SELECT a.item, a.instruction_id, a.participant_id, a.idempotency_key, a.token_id,
          CASE
            WHEN a.why = 'TOKEN' THEN jsonb_build_object('code', 'RH030', 'message', 'the token is not in force',
              'hint', 'Ask for a token: railhead token create.', 'field', 'token', 'rule', 'IN_FORCE')
            WHEN a.why IS NOT NULL THEN jsonb_build_object('code', 'RH031',
              'message', CASE a.why WHEN 'VERB' THEN 'the token is not for this act'
                ELSE 'the token is not for this participant' END,
              'hint', 'Ask for a token that allows it: railhead token create.', 'field', 'token', 'rule', a.why)
            WHEN a.idempotency_key IS NULL OR length(a.idempotency_key) NOT BETWEEN 1 AND 128
              OR a.idempotency_key ~ '[^ -~]'
              OR a.idempotency_key <> btrim(a.idempotency_key) THEN
              jsonb_build_object('code', 'RH002', 'message',
                'idempotency_key must be 1 to 128 printable ASCII characters without spaces at its ends',
                'hint', 'See docs/ingest.md for the form of an instruction.', 'field', 'idempotency_key', 'rule',
                'FORM')
            WHEN length(a.principal) NOT BETWEEN 1 AND 128 OR a.principal ~ '[^ -~]'
              OR a.principal <> btrim(a.principal) THEN
              jsonb_build_object('code', 'RH002', 'message',
                'on_behalf_of must be 1 to 128 printable ASCII characters without spaces at its ends',
                'hint', 'Leave it out where the caller acts for itself.', 'field', 'on_behalf_of', 'rule', 'FORM')
          END AS fault
        FROM (
          SELECT a.*, s.token_id, {cell}.api_token_refusal(s.row, a.certificate, 'ENQUEUE', a.participant_id) AS why
          FROM unnest(tokens, certificates, instruction_ids COLLATE "C", participant_ids COLLATE "C",
            idempotency_keys COLLATE "C", principals COLLATE "C")
            WITH ORDINALITY AS a(token, certificate, instruction_id, participant_id, idempotency_key, principal, item)
          LEFT JOIN shown s ON s.token = a.token
          OFFSET 0) a
        OFFSET 0) a) a
    LEFT JOIN LATERAL (
      SELECT c.outbox_id, k.instruction_id
      FROM (
        SELECT c.outbox_id FROM {cell}.payment_api_calls c
        WHERE a.fault IS NULL AND c.participant_id = a.participant_id AND c.idempotency_key = a.idempotency_key
          LIMIT 1) c
      CROSS JOIN LATERAL (
        SELECT k.instruction_id FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = c.outbox_id
          LIMIT 1) k
      UNION ALL
      SELECT c.outbox_id, c.instruction_id FROM {cell}.carried_key(a.participant_id, a.idempotency_key) c
      WHERE a.participant_id = ANY (comers) AND a.fault IS NULL
      LIMIT 1) known ON true
    ORDER BY a.item) j;

  IF refused THEN
    RETURN QUERY
    SELECT f.item::integer, NULL::uuid, NULL::bigint, NULL::timestamptz, NULL::text, NULL::boolean, f.fault ->> 'code',
      f.fault ->> 'message', f.fault ->> 'hint', NULL::text[], f.fault ->> 'field', f.fault ->> 'rule',
      f.fault ->> 'detail'
    FROM unnest(faults) WITH ORDINALITY AS f(fault, item)
    WHERE f.fault IS NOT NULL;
    SELECT array_agg(a.item), array_agg(a.instruction_id), array_agg(a.participant_id), array_agg(a.idempotency_key),
      array_agg(a.rail_type), array_agg(a.payload), array_agg(a.not_before), array_agg(a.expires_at),
      array_agg(a.priority), array_agg(a.headers), array_agg(a.send_once), array_agg(a.principal),
      array_agg(a.token_id), array_agg(a.digest)
    INTO places, instruction_ids, participant_ids, idempotency_keys, rail_types, payloads, not_befores, expires_ats,
      priorities, headers, send_onces, principals, token_ids, digests
    FROM (
      SELECT a.*
      FROM unnest(instruction_ids, participant_ids, idempotency_keys, rail_types, payloads, not_befores, expires_ats,
        priorities, headers,
        send_onces, principals, token_ids, digests, faults) WITH ORDINALITY
        AS a(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, expires_at, priority,
          headers,
          send_once, principal, token_id, digest, fault, item)
      WHERE a.fault IS NULL
      ORDER BY a.item) a;
    IF places IS NULL THEN
      RETURN;
    END IF;
  END IF;

  FOR item, outbox_id, sequence_id, created_at, state, replayed, error_code, error_message, error_hint, differs,
    error_field, error_rule, error_detail IN
    SELECT e.item, e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.error_code, e.error_message,
      e.error_hint, e.differs, e.error_field, e.error_rule, e.error_detail
    FROM {cell}.enqueue_payment_outbox_arrays(instruction_ids, participant_ids, digests, rail_types, payloads,
      not_befores, expires_ats, priorities,
      headers, send_onces, api_enqueue.waits) e
  LOOP
    IF NOT replayed THEN
      fresh := fresh || item;
      fresh_ids := fresh_ids || outbox_id;
    END IF;
    item := coalesce(places[item], item);
    RETURN NEXT;
  END LOOP;
  -- This transaction has locked the participants' rows: rows that are there were committed by
  -- others.
  INSERT INTO {cell}.payment_api_calls (outbox_id, participant_id, idempotency_key, token_id, on_behalf_of)
  SELECT f.outbox_id, a.participant_id, a.idempotency_key, a.token_id, a.principal
  FROM unnest(fresh, fresh_ids) AS f(item, outbox_id)
  JOIN unnest(participant_ids, idempotency_keys, token_ids, principals) WITH ORDINALITY
    AS a(participant_id, idempotency_key, token_id, principal, item)
    ON a.item = f.item
  ORDER BY f.item
  ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS kept = ROW_COUNT;
  IF kept <> cardinality(fresh) THEN
    RAISE EXCEPTION USING ERRCODE = '40001',
      MESSAGE = 'a key of this call was used for another instruction meanwhile', HINT = 'Retry the transaction.';
  END IF;
  IF fresh <> '{}' AND (SELECT r.own_buckets IS NOT NULL FROM {cell}.payment_outbox_rules r WHERE r.singleton) AND EXISTS (
    SELECT
    FROM unnest(fresh) AS f(item)
    JOIN unnest(participant_ids, idempotency_keys) WITH ORDINALITY AS a(participant_id, idempotency_key, item)
      ON a.item = f.item
    CROSS JOIN LATERAL (
      SELECT s.moved_in FROM {cell}.participant_outbox_sequences s WHERE s.participant_id = a.participant_id LIMIT 1) s
    CROSS JOIN LATERAL {cell}.carried_key(a.participant_id, a.idempotency_key) c
    WHERE s.moved_in) THEN
    RAISE EXCEPTION USING ERRCODE = '40001',
      MESSAGE = 'a key of this call was used for another instruction, in another cell', HINT = 'Retry the transaction.';
  END IF;
END
$$;
-- end of api_enqueue

-- function api_list
CREATE OR REPLACE FUNCTION {cell}.api_list(token_sha256 bytea, certificate bytea, participant_id text, after bigint,
  rows_max integer,
  instruction_id text DEFAULT NULL, idempotency_key text DEFAULT NULL)
RETURNS TABLE (item integer, outbox_id uuid, of_instruction text, of_participant text, own_key text, on_behalf_of text,
  sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  token CONSTANT {cell}.payment_api_tokens := {cell}.require_api_token(token_sha256, certificate, 'READ',
    api_list.participant_id);
  most  CONSTANT integer := least(greatest(coalesce(api_list.rows_max, 100), 1), 200);
  since CONSTANT bigint := coalesce(api_list.after, 0);
  found uuid[];
BEGIN
  IF api_list.participant_id = '' THEN
    RETURN;
  ELSIF api_list.idempotency_key IS NOT NULL THEN
    found := ARRAY(
      SELECT c.outbox_id FROM {cell}.payment_api_calls c
      WHERE c.participant_id = api_list.participant_id COLLATE "C"
        AND c.idempotency_key = api_list.idempotency_key COLLATE "C");
    IF found = '{}' THEN
      found := ARRAY(
        SELECT r.outbox_id FROM {cell}.carried_key(api_list.participant_id, api_list.idempotency_key) r);
    END IF;
  ELSIF api_list.instruction_id IS NOT NULL THEN
    found := ARRAY(
      SELECT k.outbox_id
      FROM (
        (SELECT k.outbox_id, k.sequence_id
         FROM (
           SELECT o.outbox_id, o.participant_id, o.sequence_id FROM {cell}.payment_outbox_keys o
           WHERE o.instruction_id = api_list.instruction_id COLLATE "C" OFFSET 0) k
         WHERE k.participant_id = api_list.participant_id COLLATE "C" AND k.sequence_id > since
         ORDER BY k.sequence_id
         LIMIT most)
        UNION
        SELECT r.outbox_id, r.sequence_id
        FROM (
          SELECT r.outbox_id, r.participant_id, r.sequence_id FROM {cell}.payment_arrived_keys r
          WHERE r.instruction_id = api_list.instruction_id COLLATE "C" OFFSET 0) r
        WHERE r.participant_id = api_list.participant_id COLLATE "C" AND r.sequence_id > since) k
      ORDER BY k.sequence_id
      LIMIT most);
  ELSE
    -- What came to this cell more than once is in each arrival: the last one counts here.
    found := ARRAY(
      SELECT k.outbox_id
      FROM (
        (SELECT o.outbox_id, o.sequence_id FROM {cell}.payment_outbox_keys o
         WHERE o.participant_id = api_list.participant_id COLLATE "C" AND o.sequence_id > since
         ORDER BY o.sequence_id
         LIMIT most)
        UNION
        (SELECT r.outbox_id, r.sequence_id
         FROM (
           SELECT r.outbox_id, r.sequence_id, r.bucket, r.version FROM {cell}.payment_arrived_keys r
           WHERE r.participant_id = api_list.participant_id COLLATE "C" AND r.sequence_id > since
           ORDER BY r.sequence_id
           OFFSET 0) r
         WHERE (
           SELECT true FROM {cell}.payment_arrivals a
           WHERE a.bucket = r.bucket AND a.version = r.version AND a.taken_at IS NOT NULL LIMIT 1)
           AND (
             SELECT true FROM {cell}.payment_arrivals a
             CROSS JOIN LATERAL (
               SELECT FROM {cell}.payment_arrived_keys n
               WHERE n.bucket = a.bucket AND n.version = a.version AND n.outbox_id = r.outbox_id LIMIT 1) n
             WHERE a.bucket = r.bucket AND a.version > r.version AND a.taken_at IS NOT NULL
             LIMIT 1) IS NULL
         ORDER BY r.sequence_id
         LIMIT most)) k
      ORDER BY k.sequence_id
      LIMIT most);
  END IF;
  RETURN QUERY
  SELECT p.item, p.outbox_id, p.instruction_id, p.participant_id,
    coalesce(p.idempotency_key, CASE WHEN p.outbox_id IS NOT NULL THEN api_list.idempotency_key END),
    p.on_behalf_of, p.sequence_id, p.created_at, p.state, p.certainty, p.attempts, p.changed_at, p.next_attempt_at,
    p.error_code, p.rail_code, p.rail_reference, p.waits_for_person
  FROM {cell}.api_payments(api_list.token_sha256, api_list.certificate, found) p
  WHERE (api_list.instruction_id IS NULL OR p.instruction_id = api_list.instruction_id COLLATE "C")
    AND p.sequence_id > since
  ORDER BY p.item;
END
$$;
-- end of api_list

-- function api_payments
CREATE OR REPLACE FUNCTION {cell}.api_payments(token_sha256 bytea, certificate bytea, outbox_ids uuid[])
RETURNS TABLE (item integer, outbox_id uuid, instruction_id text, participant_id text, idempotency_key text,
  on_behalf_of text,
  sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  token {cell}.payment_api_tokens := {cell}.require_api_token(token_sha256, certificate, 'READ', '');
  mine  uuid[];
  other uuid[]; -- the ids that this cell has no instruction of
BEGIN
  IF cardinality(outbox_ids) > 1000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('%s ids are more than 1000', cardinality(outbox_ids)),
      HINT = 'Ask about fewer at once.';
  END IF;
  mine := ARRAY(
    SELECT k.outbox_id
    FROM unnest(outbox_ids) WITH ORDINALITY AS asked(outbox_id, n)
    LEFT JOIN LATERAL (
      SELECT o.outbox_id FROM {cell}.payment_outbox_keys o
      WHERE o.outbox_id = asked.outbox_id AND o.participant_id = ANY (token.participants)
      LIMIT 1) k ON true
    ORDER BY asked.n);
  other := ARRAY(
    SELECT CASE WHEN asked.mine IS NULL THEN asked.outbox_id END
    FROM unnest(outbox_ids, mine) WITH ORDINALITY AS asked(outbox_id, mine, n)
    ORDER BY asked.n);
  RETURN QUERY
  SELECT s.item, coalesce(s.outbox_id, e.outbox_id), coalesce(k.instruction_id, e.instruction_id),
    coalesce(k.participant_id, e.participant_id),
    coalesce(c.idempotency_key, k.idempotency_key,
      CASE WHEN e.idempotency_key !~ '^api-[0-9a-f]{64}$' THEN e.idempotency_key END),
    c.on_behalf_of, coalesce(s.sequence_id, e.sequence_id), coalesce(s.created_at, e.created_at),
    CASE WHEN e.outbox_id IS NULL THEN s.state ELSE 'ELSEWHERE' END,
    s.certainty, s.attempts, s.changed_at, s.next_attempt_at,
    s.error_code, s.rail_code, s.rail_reference, s.waits_for_person
  FROM {cell}.status_of_payments(mine) s
  LEFT JOIN LATERAL (
    SELECT o.instruction_id, o.participant_id, o.idempotency_key FROM {cell}.payment_outbox_keys o
    WHERE o.outbox_id = s.outbox_id LIMIT 1) k ON true
  LEFT JOIN LATERAL (
    SELECT o.idempotency_key, o.on_behalf_of FROM {cell}.payment_api_calls o WHERE o.outbox_id = s.outbox_id
      LIMIT 1) c ON true
  LEFT JOIN {cell}.carried_payments(token.participants, other) e ON e.item = s.item
  ORDER BY s.item;
END
$$;
-- end of api_payments

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

-- function begin_arrival
CREATE OR REPLACE FUNCTION {cell}.begin_arrival(bucket integer, version integer, digest text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  held  {cell}.payment_buckets;
  known {cell}.payment_arrivals;
BEGIN
  PERFORM {cell}.require_durable_map();
  SELECT b.* INTO held FROM {cell}.payment_buckets b WHERE b.bucket = begin_arrival.bucket FOR UPDATE;
  IF NOT FOUND OR held.version >= begin_arrival.version AND NOT EXISTS (
    SELECT FROM {cell}.payment_cell_changes k
    WHERE k.bucket = begin_arrival.bucket AND k.version = begin_arrival.version AND k.digest = begin_arrival.digest)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell knows another version %s of bucket %s', begin_arrival.version, begin_arrival.bucket),
      HINT = 'railhead cell sync, then repeat this.';
  END IF;
  -- The lock waits for a store_arrivals that is under way, so that what is discarded is all.
  SELECT a.* INTO known FROM {cell}.payment_arrivals a
  WHERE a.bucket = begin_arrival.bucket AND a.version = begin_arrival.version FOR UPDATE;
  IF known.digest IS DISTINCT FROM begin_arrival.digest THEN
    IF known.taken_at IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('version %s of bucket %s is in force here with other participants or keys', begin_arrival.version,
          begin_arrival.bucket),
        HINT = 'Two cells gave one version: railhead cell status, then railhead cell settle.';
    END IF;
    DELETE FROM {cell}.payment_arrived_keys k
    WHERE k.bucket = begin_arrival.bucket AND k.version = begin_arrival.version;
    DELETE FROM {cell}.payment_arrived_participants p
    WHERE p.bucket = begin_arrival.bucket AND p.version = begin_arrival.version;
    DELETE FROM {cell}.payment_arrivals a
    WHERE a.bucket = begin_arrival.bucket AND a.version = begin_arrival.version;
    INSERT INTO {cell}.payment_arrivals (bucket, version, digest)
    VALUES (begin_arrival.bucket, begin_arrival.version, begin_arrival.digest);
    RETURN false;
  END IF;
  RETURN known.complete_at IS NOT NULL;
END
$$;
-- end of begin_arrival

-- function bucket_is_leaving
CREATE OR REPLACE FUNCTION {cell}.bucket_is_leaving(version integer, leaving integer) RETURNS boolean
LANGUAGE sql IMMUTABLE
AS $$
  SELECT coalesce($2 = $1 OPERATOR(pg_catalog.+) 1, false)
$$;
-- end of bucket_is_leaving

-- function bucket_move
CREATE OR REPLACE FUNCTION {cell}.bucket_move(bucket integer, version integer)
RETURNS TABLE (cell text, given boolean, participants integer, keys bigint, digest text)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT m.cell, b.version >= m.version, m.participants, m.keys, m.digest
  FROM {cell}.payment_bucket_moves m
  JOIN {cell}.payment_buckets b ON b.bucket = m.bucket
  WHERE m.bucket = $1 AND m.version = coalesce($2, b.version + 1)
$$;
-- end of bucket_move

-- function carried_call
CREATE OR REPLACE FUNCTION {cell}.carried_call(instruction_id text, participant_id text, idempotency_key text,
  print bytea, allow_second_key boolean)
RETURNS TABLE (code text, message text, hint text, rule text, detail text, outbox_id uuid, sequence_id bigint,
  created_at timestamptz)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  first record;
BEGIN
  SELECT k.* INTO first
  FROM (
    SELECT k.* FROM {cell}.payment_arrived_keys k WHERE k.instruction_id = $1 COLLATE "C" OFFSET 0) k
  WHERE (k.idempotency_key = $3 COLLATE "C" OR k.participant_id = $2 COLLATE "C" AND NOT $5)
    AND (
      SELECT a.taken_at FROM {cell}.payment_arrivals a
      WHERE a.bucket = k.bucket AND a.version = k.version) IS NOT NULL
  ORDER BY k.idempotency_key = $3 COLLATE "C" AND k.participant_id = $2 COLLATE "C" DESC,
    k.participant_id = $2 COLLATE "C" DESC, k.created_at, k.outbox_id
  LIMIT 1;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF first.idempotency_key <> $3 COLLATE "C" THEN
    code := 'RH007';
    message := 'this instruction_id is already enqueued under another idempotency_key';
    hint := 'A retry repeats the first idempotency_key. A fresh key per retry is how a payment is made twice.';
    rule := 'ONE_KEY';
    detail := format('The first instruction is outbox_id %s, in another cell.', first.outbox_id);
  ELSIF first.participant_id <> $2 COLLATE "C" OR first.fingerprint <> $4 THEN
    code := 'RH001';
    message := 'this instruction_id and idempotency_key were first used with other content';
    hint := 'Repeat a call with exactly the content of the first one. A different payment needs its own instruction_id.';
    rule := 'SAME_CONTENT';
    detail := CASE WHEN first.participant_id = $2 COLLATE "C"
      THEN format('The first instruction is outbox_id %s, sequence_id %s, in another cell.', first.outbox_id,
        first.sequence_id)
      ELSE 'The first instruction belongs to another participant.' END;
  END IF;
  outbox_id := first.outbox_id;
  sequence_id := first.sequence_id;
  created_at := first.created_at;
  RETURN NEXT;
END
$$;
-- end of carried_call

-- function carried_key
CREATE OR REPLACE FUNCTION {cell}.carried_key(participant_id text, idempotency_key text)
RETURNS TABLE (outbox_id uuid, instruction_id text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT r.outbox_id, r.instruction_id
  FROM (
    SELECT r.* FROM {cell}.payment_arrived_keys r
    WHERE r.idempotency_key LIKE 'api-%' AND r.idempotency_key = {cell}.api_key_digest($1, $2) COLLATE "C" OFFSET 0) r
  WHERE r.participant_id = $1 COLLATE "C" AND (
    SELECT a.taken_at FROM {cell}.payment_arrivals a
    WHERE a.bucket = r.bucket AND a.version = r.version) IS NOT NULL
  LIMIT 1
$$;
-- end of carried_key

-- function carried_payments
CREATE OR REPLACE FUNCTION {cell}.carried_payments(participants text[], outbox_ids uuid[])
RETURNS TABLE (item integer, outbox_id uuid, instruction_id text, participant_id text, idempotency_key text,
  sequence_id bigint, created_at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT asked.n::integer, r.outbox_id, r.instruction_id, r.participant_id, r.idempotency_key, r.sequence_id, r.created_at
  FROM unnest($2) WITH ORDINALITY AS asked(outbox_id, n)
  CROSS JOIN LATERAL (
    SELECT r.*
    FROM (SELECT r.* FROM {cell}.payment_arrived_keys r WHERE r.outbox_id = asked.outbox_id OFFSET 0) r
    WHERE r.participant_id = ANY ($1 COLLATE "C") AND (
      SELECT a.taken_at FROM {cell}.payment_arrivals a
      WHERE a.bucket = r.bucket AND a.version = r.version) IS NOT NULL
    LIMIT 1) r
$$;
-- end of carried_payments

-- function complete_arrival
CREATE OR REPLACE FUNCTION {cell}.complete_arrival(bucket integer, version integer, digest text,
  whole boolean) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  known {cell}.payment_arrivals;
BEGIN
  PERFORM {cell}.require_durable_map();
  SELECT a.* INTO known FROM {cell}.payment_arrivals a WHERE a.bucket = $1 AND a.version = $2 FOR UPDATE;
  IF NOT FOUND OR known.digest <> $3 COLLATE "C" THEN
    RETURN false;
  END IF;
  IF known.complete_at IS NULL THEN
    IF known.digest IS DISTINCT FROM (SELECT d.digest FROM {cell}.moved_digest($1, $2, true) d) THEN
      DELETE FROM {cell}.payment_arrivals a WHERE a.bucket = $1 AND a.version = $2 AND whole;
      RETURN false;
    END IF;
    UPDATE {cell}.payment_arrivals a SET complete_at = clock_timestamp() WHERE a.bucket = $1 AND a.version = $2;
  END IF;
  RETURN true;
END
$$;
-- end of complete_arrival

-- function enqueue_payment_outbox
CREATE OR REPLACE FUNCTION {cell}.enqueue_payment_outbox(
  instruction_id text, participant_id text, idempotency_key text, rail_type text, payload jsonb,
  not_before timestamptz DEFAULT NULL, expires_at timestamptz DEFAULT NULL,
  priority integer DEFAULT 1, headers jsonb DEFAULT '{}', send_once boolean DEFAULT false)
RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, replayed boolean, differs text[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
  seen     record;
  fault    record;
  carried  record;
  came     boolean := false; -- whether carried says something
  moved_in boolean;
  closed   boolean := false;
BEGIN
  -- An accepted instruction must be flushed to disk, and to the synchronous standby if there is
  -- one. The commit is the caller's, whose login may be set not to wait for that.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;

  FOR look IN 1..2 LOOP
    SELECT k.outbox_id, k.sequence_id, k.created_at, k.participant_id, k.fingerprint, w.print, r.allow_second_key,
      {cell}.payment_rail_key(r.rail_key_namespace, participant_id, instruction_id, idempotency_key) AS rail_key,
      rail_type COLLATE "C" = ANY (r.rail_types)
      AND (r.required -> (rail_type COLLATE "C") IS NULL OR {cell}.missing_field(r.required -> (rail_type COLLATE "C"),
        payload) IS NULL)
      AND NOT lower(w.written COLLATE "C") LIKE ANY (r.forbidden)
      AND (headers = '{}' OR NOT lower(headers::text COLLATE "C") LIKE ANY (r.forbidden))
      AND NOT {cell}.enqueue_is_closed(r.closed_gates, rail_type, participant_id)
      AND (r.confirmed_start = pg_postmaster_start_time()
        AND get_bit(r.own_buckets, {cell}.cell_bucket(participant_id)) = 1
        OR {cell}.takes_participant(r.own_buckets, participant_id))
      AND {cell}.payment_outbox_valid(instruction_id, participant_id, idempotency_key, payload, not_before, expires_at,
        priority, headers,
        w.written, r.payload_bytes_max, r.headers_bytes_max, r.payload_depth_max,
        (r.digits -> (payload ->> 'currency'))::integer, r.refuse_card_numbers) AS valid
    INTO STRICT seen
    FROM (
      SELECT payload::text AS written, {cell}.payment_outbox_fingerprint(participant_id, rail_type,
        payload) AS print OFFSET 0) w
    JOIN {cell}.payment_outbox_rules r ON r.singleton
    LEFT JOIN {cell}.payment_outbox_keys k
      ON k.instruction_id = instruction_id COLLATE "C" AND k.idempotency_key = idempotency_key COLLATE "C";
    IF seen.outbox_id IS NOT NULL THEN
      IF seen.fingerprint IS DISTINCT FROM seen.print THEN
        RAISE EXCEPTION USING
          ERRCODE = 'RH001',
          MESSAGE = 'this instruction_id and idempotency_key were first used with other content',
          COLUMN = 'idempotency_key', CONSTRAINT = 'SAME_CONTENT',
          DETAIL = CASE WHEN seen.participant_id = participant_id COLLATE "C"
            THEN format('The first instruction is outbox_id %s, sequence_id %s.', seen.outbox_id, seen.sequence_id)
            ELSE 'The first instruction belongs to another participant.' END,
          HINT = 'Repeat a call with exactly the content of the first one. A different payment needs its own '
            'instruction_id.';
      END IF;
      -- The commit of the first call may have reached this server and not yet the synchronous
      -- standby: if its wait is cancelled, its row is visible. A read-only transaction does not
      -- wait for a standby, and this answer must survive a failover too. The message makes the
      -- transaction write WAL.
      PERFORM pg_logical_emit_message(true, 'railhead', 'replayed');
      outbox_id := seen.outbox_id;
      sequence_id := seen.sequence_id;
      created_at := seen.created_at;
      state := {cell}.payment_outbox_state(seen.outbox_id);
      replayed := true;
      differs := {cell}.payment_outbox_differs(seen.outbox_id, not_before, expires_at, priority,
        coalesce(send_once, false));
      RETURN NEXT;
      RETURN;
    END IF;
    -- This transaction has locked the participant's row since the first pass. No open transaction
    -- has enqueued this key, so the hint "Nothing was stored" is true.
    IF closed THEN
      RAISE EXCEPTION USING ERRCODE = fault.code, MESSAGE = fault.message, DETAIL = fault.detail, HINT = fault.hint,
        COLUMN = fault.field, CONSTRAINT = fault.rule;
    END IF;
    -- After the second pass, the row of the key exists but is not visible to this snapshot.
    EXIT WHEN look = 2;

    IF seen.valid IS NOT TRUE THEN
      SELECT f.* INTO fault FROM {cell}.payment_outbox_violation(instruction_id, participant_id, idempotency_key,
        rail_type, payload, not_before, expires_at, priority, headers) f;
      closed := FOUND AND fault.code = 'RH014';
      IF FOUND AND NOT closed THEN
        SELECT c.* INTO carried
        FROM (SELECT FROM {cell}.participant_outbox_sequences s
          WHERE s.participant_id = participant_id COLLATE "C" AND s.moved_in) s
        CROSS JOIN LATERAL {cell}.carried_call(instruction_id, participant_id, idempotency_key, seen.print,
          seen.allow_second_key) c;
        came := FOUND;
        EXIT WHEN came;
        RAISE EXCEPTION USING ERRCODE = fault.code, MESSAGE = fault.message, HINT = fault.hint,
          COLUMN = fault.field, CONSTRAINT = fault.rule;
      END IF;
    END IF;

    -- The participant's row is the lock: until the caller's transaction ends, no other call
    -- allocates for this participant, so that the checks below stay true. The row exists at every
    -- call but the first, and needs no upsert.
    UPDATE {cell}.participant_outbox_sequences s
    SET next_sequence_id = s.next_sequence_id + 1
    WHERE s.participant_id = participant_id COLLATE "C"
    RETURNING s.next_sequence_id - 1, s.moved_in INTO sequence_id, moved_in;
    IF NOT FOUND THEN
      sequence_id := {cell}.bump_participant_outbox_seq(participant_id);
      SELECT s.moved_in INTO STRICT moved_in FROM {cell}.participant_outbox_sequences s
      WHERE s.participant_id = participant_id COLLATE "C";
    END IF;
    IF moved_in THEN
      SELECT c.* INTO carried
      FROM {cell}.carried_call(instruction_id, participant_id, idempotency_key, seen.print, seen.allow_second_key) c;
      came := FOUND;
      IF came THEN
        UPDATE {cell}.participant_outbox_sequences s
        SET next_sequence_id = s.next_sequence_id - 1
        WHERE s.participant_id = participant_id COLLATE "C";
        EXIT;
      END IF;
    END IF;

    -- If the gate is closed, the key is not inserted, and the second pass looks it up once more.
    INSERT INTO {cell}.payment_outbox_keys AS k
      (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint, rail_key)
    SELECT {cell}.uuidv7_from(m.micros), instruction_id, idempotency_key,
      participant_id, sequence_id, seen.print, seen.rail_key
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros OFFSET 0) m
    WHERE NOT closed AND (seen.allow_second_key OR NOT EXISTS (
      SELECT FROM (
        SELECT o.participant_id, o.idempotency_key FROM {cell}.payment_outbox_keys o
        WHERE o.instruction_id = instruction_id COLLATE "C" OFFSET 0) o
      WHERE o.participant_id = participant_id COLLATE "C" AND o.idempotency_key <> idempotency_key COLLATE "C"))
    ON CONFLICT ON CONSTRAINT payment_outbox_keys_once DO NOTHING
    RETURNING k.outbox_id, k.created_at INTO outbox_id, created_at;
    IF FOUND THEN
      INSERT INTO {cell}.payment_outbox_instructions (outbox_id, not_before, expires_at, priority, send_once, rail_type,
        headers, payload)
      VALUES (outbox_id, not_before, expires_at, priority, coalesce(send_once, false), rail_type, headers, payload);
      INSERT INTO {cell}.payment_outbox_pending (outbox_id, next_attempt_at, created_at, expires_at, priority,
        participant_id, rail_type)
      VALUES (outbox_id, greatest(not_before, created_at), created_at, expires_at, priority, participant_id, rail_type);
      state := 'PENDING';
      replayed := false;
      RETURN NEXT;
      RETURN;
    END IF;

    SELECT o.outbox_id INTO outbox_id
    FROM (
      SELECT o.outbox_id, o.participant_id, o.idempotency_key FROM {cell}.payment_outbox_keys o
      WHERE o.instruction_id = instruction_id COLLATE "C" OFFSET 0) o
    WHERE o.participant_id = participant_id COLLATE "C"
      AND o.idempotency_key <> idempotency_key COLLATE "C" AND NOT seen.allow_second_key
    LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION USING
        ERRCODE = 'RH007',
        MESSAGE = 'this instruction_id is already enqueued under another idempotency_key',
        COLUMN = 'idempotency_key', CONSTRAINT = 'ONE_KEY',
        DETAIL = format('The first instruction is outbox_id %s.', outbox_id),
        HINT = 'A retry repeats the first idempotency_key. A fresh key per retry is how a payment is made twice.';
    END IF;

    -- The key was inserted concurrently, or the gate is closed: return the number (this transaction
    -- still has the row locked) and start the second pass.
    UPDATE {cell}.participant_outbox_sequences s
    SET next_sequence_id = s.next_sequence_id - 1
    WHERE s.participant_id = participant_id COLLATE "C";
  END LOOP;
  IF came THEN
    IF carried.code IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = carried.code, MESSAGE = carried.message, HINT = carried.hint,
        DETAIL = carried.detail, COLUMN = 'idempotency_key', CONSTRAINT = carried.rule;
    END IF;
    PERFORM pg_logical_emit_message(true, 'railhead', 'elsewhere');
    outbox_id := carried.outbox_id;
    sequence_id := carried.sequence_id;
    created_at := carried.created_at;
    state := 'ELSEWHERE';
    replayed := true;
    differs := NULL;
    RETURN NEXT;
    RETURN;
  END IF;
  RAISE EXCEPTION USING
    ERRCODE = '40001',
    MESSAGE = 'the same key was enqueued by a transaction that this snapshot cannot see',
    HINT = 'Retry the transaction.';
END
$$;
-- end of enqueue_payment_outbox

-- function enqueue_payment_outbox_arrays
CREATE OR REPLACE FUNCTION {cell}.enqueue_payment_outbox_arrays(
  instruction_ids text[], participant_ids text[], idempotency_keys text[], rail_types text[], payloads jsonb[],
  not_befores timestamptz[] DEFAULT NULL, expires_ats timestamptz[] DEFAULT NULL, priorities integer[] DEFAULT NULL,
  headers jsonb[] DEFAULT NULL, send_onces boolean[] DEFAULT NULL, waits boolean DEFAULT false)
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  replayed boolean, error_code text, error_message text, error_hint text, differs text[], error_field text,
    error_rule text, error_detail text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET enable_nestloop = off
SET enable_memoize = off
SET jit = off
AS $$
DECLARE
  tries_max CONSTANT integer := 3;
  looks_max CONSTANT integer := 10;
  n         CONSTANT integer := cardinality(instruction_ids);
  settings  record;
  patience  CONSTANT text := current_setting('lock_timeout');
  briefly   CONSTANT text := CASE WHEN patience <> '0' AND patience::interval < '10ms' THEN patience ELSE '10ms' END;
  prints    bytea[];   -- the fingerprint of each item
  faults    jsonb[];   -- the violation of each item (payment_outbox_violation)
  wants     boolean[]; -- whether the item may need a number, or only the lock
  lockers   text[] COLLATE "C"; -- the participants whose rows are locked
  firsts    bigint[];  -- the first number allocated to each of them
  skips     boolean := false; -- whether participants locked by others are skipped
  missing   boolean;   -- whether further participants have to be locked
  comers    text[] COLLATE "C" := '{}'; -- those of them that were moved to this cell
  made      text[] COLLATE "C"; -- the participants that enqueue for the first time
  maker     text COLLATE "C";
  fresh     integer[];
  fresh_ids uuid[];
  fresh_nos bigint[];
  fresh_ats timestamptz[];
  keyed     integer;
  undecided integer[];
  one       record;
BEGIN
  waits := coalesce(waits, false);
  -- As in enqueue_payment_outbox, the commit waits until the instructions are durable.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  IF (n = ALL (ARRAY[cardinality(participant_ids), cardinality(idempotency_keys), cardinality(rail_types),
    cardinality(payloads),
    coalesce(cardinality(not_befores), n), coalesce(cardinality(expires_ats), n), coalesce(cardinality(priorities), n),
    coalesce(cardinality(headers), n), coalesce(cardinality(send_onces), n)])) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'the arrays of a batch must not be null, and must have the same length';
  END IF;
  IF n = 0 THEN
    RETURN;
  END IF;
  SELECT s.batch_items_max, s.allow_second_key, s.rail_key_namespace INTO STRICT settings
  FROM {cell}.payment_outbox_settings s WHERE s.singleton;
  IF n > settings.batch_items_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005',
      MESSAGE = format('a batch holds %s items, more than %s', n, settings.batch_items_max),
      HINT = 'Send it in parts.';
  END IF;

  SELECT array_agg(c.print), array_agg(c.fault), array_agg(c.fault IS NULL OR c.fault ->> 'code' = 'RH014')
  INTO prints, faults, wants
  FROM (
    SELECT w.print,
      CASE
        WHEN a.rail_type = ANY (r.rail_types)
          AND (r.required -> a.rail_type IS NULL OR {cell}.missing_field(r.required -> a.rail_type, a.payload) IS NULL)
          AND NOT lower(w.written COLLATE "C") LIKE ANY (r.forbidden)
          AND (d.headers = '{}' OR NOT lower(d.headers::text COLLATE "C") LIKE ANY (r.forbidden))
          AND NOT {cell}.enqueue_is_closed(r.closed_gates, a.rail_type, a.participant_id)
          AND (r.confirmed_start = pg_postmaster_start_time()
            AND get_bit(r.own_buckets, {cell}.cell_bucket(a.participant_id)) = 1
            OR {cell}.takes_participant(r.own_buckets, a.participant_id))
          AND {cell}.payment_outbox_valid(a.instruction_id, a.participant_id, a.idempotency_key, a.payload,
            a.not_before, a.expires_at,
            d.priority, d.headers, w.written, r.payload_bytes_max, r.headers_bytes_max, r.payload_depth_max,
            (r.digits -> (a.payload ->> 'currency'))::integer, r.refuse_card_numbers)
        THEN NULL
        ELSE (
          SELECT to_jsonb(f) FROM {cell}.payment_outbox_violation(a.instruction_id, a.participant_id, a.idempotency_key,
            a.rail_type,
            a.payload, a.not_before, a.expires_at, d.priority, d.headers) f)
      END AS fault
    FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", $4 COLLATE "C", $5, $6, $7, $8, $9) WITH ORDINALITY
      AS a(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, expires_at, priority,
        headers, item)
    CROSS JOIN LATERAL (
      SELECT CASE WHEN $8 IS NULL THEN 1 ELSE a.priority END AS priority, CASE WHEN $9 IS NULL THEN '{}'
        ELSE a.headers END AS headers) d
    CROSS JOIN LATERAL (
      SELECT a.payload::text AS written, {cell}.payment_outbox_fingerprint(a.participant_id, a.rail_type,
        a.payload) AS print OFFSET 0) w
    JOIN {cell}.payment_outbox_rules r ON r.singleton
    ORDER BY a.item) c;

  FOR try IN 1..tries_max LOOP
    BEGIN
      -- Lock the participants and allocate as many numbers as there may be new instructions. The
      -- following statements see everything that was committed before the locks were granted. If
      -- the gate of a participant is closed, its row is locked too, so that no open transaction has
      -- enqueued a key that is refused here. Unless the call waits, a second pass serves the
      -- participants that never enqueued before.
      lockers := NULL;
      firsts := NULL;
      comers := '{}';
      made := '{}';
      FOR look IN 1..looks_max LOOP
        IF look > 1 OR waits THEN
          made := ARRAY(
            SELECT DISTINCT a.participant_id
            FROM unnest($2 COLLATE "C", wants) AS a(participant_id, wants)
            LEFT JOIN LATERAL (
              SELECT true AS there FROM {cell}.participant_outbox_sequences s
              WHERE s.participant_id = a.participant_id
              LIMIT 1) s ON true
            WHERE a.wants AND s.there IS NULL
            ORDER BY a.participant_id);
        END IF;
        IF waits THEN
          -- New participants are inserted before the rows of the others are locked: a transaction
          -- that this insert waits for needs no lock that this call holds.
          IF made <> '{}' THEN
            INSERT INTO {cell}.participant_outbox_sequences (participant_id, next_sequence_id)
            SELECT m.participant_id, 1
            FROM unnest(made) AS m(participant_id)
            ORDER BY m.participant_id
            ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk DO NOTHING;
          END IF;
          PERFORM FROM {cell}.participant_outbox_sequences s
          WHERE s.participant_id = ANY (ARRAY(
            SELECT a.participant_id FROM unnest($2 COLLATE "C", wants) AS a(participant_id, wants) WHERE a.wants))
          ORDER BY s.participant_id
          FOR NO KEY UPDATE;
        ELSE
          PERFORM set_config('lock_timeout', CASE WHEN skips THEN briefly ELSE '1ms' END, true);
          -- A participant that another transaction is inserting is skipped.
          FOREACH maker IN ARRAY made LOOP
            BEGIN
              INSERT INTO {cell}.participant_outbox_sequences (participant_id, next_sequence_id)
              VALUES (maker, 1)
              ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk DO NOTHING;
            EXCEPTION WHEN lock_not_available THEN
              NULL;
            END;
          END LOOP;
        END IF;
        IF skips THEN
          WITH wanted AS MATERIALIZED (
            SELECT a.participant_id, count(*) AS n
            FROM unnest($2 COLLATE "C", wants) AS a(participant_id, wants)
            LEFT JOIN unnest(lockers) AS mine(participant_id) ON mine.participant_id = a.participant_id
            WHERE a.wants AND mine.participant_id IS NULL
            GROUP BY a.participant_id
          ),
          locked AS MATERIALIZED (
            SELECT w.participant_id, w.n, l.next_sequence_id, l.moved_in
            FROM wanted w
            CROSS JOIN LATERAL (
              SELECT l.next_sequence_id, l.moved_in FROM {cell}.participant_outbox_sequences l
              WHERE l.participant_id = w.participant_id
              FOR NO KEY UPDATE SKIP LOCKED) l
          ),
          bumped AS (
            INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id)
            SELECT l.participant_id, 1 + l.n
            FROM locked l
            ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
            DO UPDATE SET next_sequence_id = s.next_sequence_id + EXCLUDED.next_sequence_id - 1
          )
          SELECT lockers || array_agg(l.participant_id), firsts || array_agg(l.next_sequence_id),
            count(*) < (SELECT count(*) FROM wanted), comers || array_agg(l.participant_id) FILTER (WHERE l.moved_in)
          INTO lockers, firsts, missing, comers
          FROM locked l;
        ELSE
          -- A row lock that the update itself takes writes no WAL record. The join is by range, so
          -- that it probes the index once for each participant.
          WITH wanted AS MATERIALIZED (
            SELECT a.participant_id, count(*) AS n
            FROM unnest($2 COLLATE "C", wants) AS a(participant_id, wants)
            LEFT JOIN unnest(lockers) AS mine(participant_id) ON mine.participant_id = a.participant_id
            WHERE a.wants AND mine.participant_id IS NULL
            GROUP BY a.participant_id
          ),
          bumped AS (
            UPDATE {cell}.participant_outbox_sequences s
            SET next_sequence_id = s.next_sequence_id + w.n
            FROM wanted w
            WHERE s.participant_id >= w.participant_id AND s.participant_id <= w.participant_id
            RETURNING s.participant_id, s.next_sequence_id - w.n AS first, s.moved_in
          )
          SELECT lockers || array_agg(b.participant_id), firsts || array_agg(b.first),
            count(*) < (SELECT count(*) FROM wanted), comers || array_agg(b.participant_id) FILTER (WHERE b.moved_in)
          INTO lockers, firsts, missing, comers
          FROM bumped b;
        END IF;
        EXIT WHEN NOT missing OR NOT waits AND look = 2;
      END LOOP;
      IF waits AND missing THEN
        RAISE EXCEPTION USING ERRCODE = '40001',
          MESSAGE = 'participants of this batch changed concurrently', HINT = 'Retry the transaction.';
      ELSIF NOT waits AND NOT skips THEN
        PERFORM set_config('lock_timeout', briefly, true);
      END IF;

      WITH candidate AS (
        SELECT a.item::integer AS item, a.instruction_id, a.participant_id, a.idempotency_key, a.rail_type, a.payload,
          a.not_before, a.expires_at,
          CASE WHEN $8 IS NULL THEN 1 ELSE a.priority END AS priority, CASE WHEN $9 IS NULL THEN '{}'
            ELSE a.headers END AS headers,
          a.send_once, a.print, l.first
        FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", $4 COLLATE "C", $5, $6, $7, $8, $9, $10, prints,
          faults) WITH ORDINALITY
          AS a(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, expires_at, priority,
            headers, send_once, print, fault, item)
        JOIN unnest(lockers COLLATE "C", firsts) AS l(participant_id, first) ON l.participant_id = a.participant_id
        LEFT JOIN LATERAL (
          SELECT true AS known
          FROM (
            SELECT k.idempotency_key, k.participant_id FROM {cell}.payment_outbox_keys k
            WHERE k.instruction_id = a.instruction_id OFFSET 0) k
          WHERE k.idempotency_key = a.idempotency_key OR k.participant_id = a.participant_id
            AND NOT settings.allow_second_key
          LIMIT 1) k ON true
        WHERE a.fault IS NULL AND k.known IS NULL
          -- A function, so that a call without such participants locks none of its tables.
          AND CASE WHEN a.participant_id = ANY (comers) THEN NOT EXISTS (
              SELECT FROM {cell}.carried_call(a.instruction_id, a.participant_id, a.idempotency_key, a.print,
                settings.allow_second_key))
            ELSE true END
      ),
      -- The first item of each key in the batch, and of each instruction.
      numbered AS MATERIALIZED (
        SELECT c.*, {cell}.uuidv7_from(floor(extract(epoch FROM c.created_at) * 1000000)::bigint) AS outbox_id
        FROM (
          SELECT c.*, clock_timestamp() AS created_at,
            c.first + row_number() OVER (PARTITION BY c.participant_id ORDER BY c.item) - 1 AS sequence_id
          FROM (
            SELECT c.*, row_number() OVER (PARTITION BY c.instruction_id, c.idempotency_key
              ORDER BY c.item) AS nth_of_key,
              row_number() OVER (
                PARTITION BY c.instruction_id, c.participant_id, CASE WHEN settings.allow_second_key
                  THEN c.idempotency_key END
                ORDER BY c.item) AS nth_of_instruction
            FROM candidate c) c
          WHERE c.nth_of_key = 1 AND c.nth_of_instruction = 1) c
      ),
      keyed AS (
        INSERT INTO {cell}.payment_outbox_keys AS k
          (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint, rail_key, created_at)
        SELECT n.outbox_id, n.instruction_id, n.idempotency_key, n.participant_id, n.sequence_id, n.print,
          {cell}.payment_rail_key(settings.rail_key_namespace, n.participant_id, n.instruction_id, n.idempotency_key),
            n.created_at
        FROM numbered n
        ORDER BY n.instruction_id, n.idempotency_key
        ON CONFLICT ON CONSTRAINT payment_outbox_keys_once DO NOTHING
        RETURNING true
      ),
      ordered AS (
        INSERT INTO {cell}.payment_outbox_instructions (outbox_id, not_before, expires_at, priority, send_once,
          rail_type, headers, payload)
        SELECT n.outbox_id, n.not_before, n.expires_at, n.priority, coalesce(n.send_once, false), n.rail_type,
          n.headers, n.payload
        FROM numbered n
      ),
      waiting AS (
        INSERT INTO {cell}.payment_outbox_pending (outbox_id, next_attempt_at, created_at, expires_at, priority,
          participant_id, rail_type)
        SELECT n.outbox_id, greatest(n.not_before, n.created_at), n.created_at, n.expires_at, n.priority,
          n.participant_id, n.rail_type
        FROM numbered n
      )
      SELECT (SELECT count(*) FROM keyed), array_agg(n.item), array_agg(n.outbox_id), array_agg(n.sequence_id),
        array_agg(n.created_at)
      INTO keyed, fresh, fresh_ids, fresh_nos, fresh_ats
      FROM (SELECT n.item, n.outbox_id, n.sequence_id, n.created_at FROM numbered n ORDER BY n.item) n;

      -- A key that the call of another participant inserted concurrently would leave a gap in the
      -- numbers: roll this try back and start again.
      IF keyed <> coalesce(cardinality(fresh), 0) THEN
        RAISE EXCEPTION USING ERRCODE = '40001',
          MESSAGE = 'a key of this batch was enqueued meanwhile', HINT = 'Retry the transaction.';
      END IF;
      EXIT;
    EXCEPTION
      WHEN lock_not_available THEN
        IF waits OR skips OR try = tries_max THEN
          RAISE;
        END IF;
        skips := true;
      WHEN serialization_failure OR unique_violation THEN
        IF try = tries_max THEN
          RAISE;
        END IF;
    END;
  END LOOP;

  IF cardinality(fresh) = n THEN
    IF NOT waits THEN
      PERFORM set_config('lock_timeout', patience, true);
    END IF;
    RETURN QUERY
    SELECT f.item, f.outbox_id, f.sequence_id, f.created_at, 'PENDING', false, NULL::text, NULL::text, NULL::text,
      NULL::text[], NULL::text, NULL::text, NULL::text
    FROM unnest(fresh, fresh_ids, fresh_nos, fresh_ats) AS f(item, outbox_id, sequence_id, created_at);
    RETURN;
  END IF;

  -- Return the numbers that repetitions in the batch and known keys did not need. This transaction
  -- still has the rows locked.
  INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id)
  SELECT l.participant_id, 1 + count(*)
  FROM unnest($2 COLLATE "C", wants) WITH ORDINALITY AS a(participant_id, wants, item)
  JOIN unnest(lockers COLLATE "C") AS l(participant_id) ON l.participant_id = a.participant_id
  LEFT JOIN unnest(fresh) AS f(item) ON f.item = a.item
  WHERE a.wants AND f.item IS NULL
  GROUP BY l.participant_id
  ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
  DO UPDATE SET next_sequence_id = s.next_sequence_id - EXCLUDED.next_sequence_id + 1;
  -- A new participant of which nothing was accepted gets no row.
  DELETE FROM {cell}.participant_outbox_sequences s
  WHERE s.participant_id = ANY (lockers) AND s.next_sequence_id = 1;

  -- Repetitions, within the batch, of an item that was not accepted, and, of participants that were moved to
  -- this cell, calls that the other one may have answered. All other items are answered from what is known.
  undecided := ARRAY(
    SELECT a.item::integer
    FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", faults) WITH ORDINALITY
      AS a(instruction_id, participant_id, idempotency_key, fault, item)
    LEFT JOIN unnest(lockers) AS l(participant_id) ON l.participant_id = a.participant_id
    LEFT JOIN unnest(fresh) AS f(item) ON f.item = a.item
    LEFT JOIN LATERAL (
      SELECT true AS known
      FROM (
        SELECT k.idempotency_key, k.participant_id FROM {cell}.payment_outbox_keys k
        WHERE k.instruction_id = a.instruction_id OFFSET 0) k
      WHERE k.idempotency_key = a.idempotency_key OR k.participant_id = a.participant_id
        AND NOT settings.allow_second_key
      LIMIT 1) k ON true
    LEFT JOIN LATERAL (
      SELECT s.moved_in FROM {cell}.participant_outbox_sequences s
      WHERE a.fault IS NOT NULL AND s.participant_id = a.participant_id
      LIMIT 1) s ON true
    WHERE f.item IS NULL AND k.known IS NULL
      AND CASE
        WHEN a.fault IS NULL THEN l.participant_id IS NOT NULL
        ELSE s.moved_in AND (l.participant_id IS NOT NULL OR a.fault ->> 'code' <> 'RH014')
      END
    ORDER BY a.item);

  -- As in enqueue_payment_outbox, an answer about rows of others waits until they are on the
  -- standby too.
  IF fresh IS NULL THEN
    PERFORM pg_logical_emit_message(true, 'railhead', 'replayed');
  END IF;
  RETURN QUERY
  SELECT a.item::integer,
    CASE WHEN v.code IS NULL THEN coalesce(f.outbox_id, k.outbox_id) END,
    CASE WHEN v.code IS NULL THEN coalesce(f.sequence_id, k.sequence_id) END,
    CASE WHEN v.code IS NULL THEN coalesce(f.created_at, k.created_at) END,
    CASE WHEN f.item IS NOT NULL THEN 'PENDING' WHEN v.code IS NULL THEN {cell}.payment_outbox_state(k.outbox_id) END,
    CASE WHEN v.code IS NULL THEN f.item IS NULL END,
    v.code,
    CASE v.code
      WHEN 'RH001' THEN 'this instruction_id and idempotency_key were first used with other content'
      WHEN 'RH007' THEN 'this instruction_id is already enqueued under another idempotency_key'
      WHEN 'RH015' THEN 'another transaction enqueues for this participant'
      WHEN a.fault ->> 'code' THEN a.fault ->> 'message'
    END,
    CASE v.code
      WHEN 'RH001'
        THEN 'Repeat a call with exactly the content of the first one. A different payment needs its own '
          'instruction_id.'
      WHEN 'RH007'
        THEN 'A retry repeats the first idempotency_key. A fresh key per retry is how a payment is made twice.'
      WHEN 'RH015' THEN 'This call stored nothing of it. Enqueue it by a call that waits.'
      WHEN a.fault ->> 'code' THEN a.fault ->> 'hint'
    END,
    CASE WHEN v.code IS NULL AND f.item IS NULL
      THEN {cell}.payment_outbox_differs(k.outbox_id, a.not_before, a.expires_at, CASE WHEN $8 IS NULL THEN 1
        ELSE a.priority END, coalesce(a.send_once, false)) END,
    CASE v.code WHEN 'RH001' THEN 'idempotency_key' WHEN 'RH007' THEN 'idempotency_key' WHEN 'RH015'
      THEN 'participant_id'
      WHEN a.fault ->> 'code' THEN a.fault ->> 'field' END,
    CASE v.code WHEN 'RH001' THEN 'SAME_CONTENT' WHEN 'RH007' THEN 'ONE_KEY' WHEN 'RH015' THEN 'BUSY'
      WHEN a.fault ->> 'code' THEN a.fault ->> 'rule' END,
    CASE v.code
      WHEN 'RH001' THEN CASE WHEN k.participant_id = a.participant_id
        THEN format('The first instruction is outbox_id %s, sequence_id %s.', k.outbox_id, k.sequence_id)
        ELSE 'The first instruction belongs to another participant.' END
      WHEN 'RH007' THEN format('The first instruction is outbox_id %s.', o.outbox_id)
      WHEN a.fault ->> 'code' THEN a.fault ->> 'detail' END
  FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", $6, $7, $8, $10, prints, faults) WITH ORDINALITY
    AS a(instruction_id, participant_id, idempotency_key, not_before, expires_at, priority, send_once, print, fault,
      item)
  LEFT JOIN unnest(lockers COLLATE "C") AS l(participant_id) ON l.participant_id = a.participant_id
  LEFT JOIN unnest(fresh, fresh_ids, fresh_nos, fresh_ats) AS f(item, outbox_id, sequence_id, created_at)
    ON f.item = a.item
  LEFT JOIN LATERAL (
    SELECT k.outbox_id, k.sequence_id, k.created_at, k.participant_id, k.fingerprint FROM {cell}.payment_outbox_keys k
    WHERE f.item IS NULL AND k.instruction_id = a.instruction_id AND k.idempotency_key = a.idempotency_key
    LIMIT 1) k ON true
  LEFT JOIN LATERAL (
    SELECT o.outbox_id
    FROM (
      SELECT o.outbox_id, o.participant_id FROM {cell}.payment_outbox_keys o
      WHERE o.instruction_id = a.instruction_id OFFSET 0) o
    WHERE f.item IS NULL AND k.outbox_id IS NULL AND o.participant_id = a.participant_id
      AND NOT settings.allow_second_key
    LIMIT 1) o ON true
  CROSS JOIN LATERAL (
    SELECT CASE
      WHEN f.item IS NOT NULL THEN NULL
      WHEN k.outbox_id IS NOT NULL AND k.fingerprint IS DISTINCT FROM a.print THEN 'RH001'
      WHEN k.outbox_id IS NOT NULL THEN NULL
      WHEN a.fault ->> 'code' <> 'RH014' THEN a.fault ->> 'code'
      WHEN l.participant_id IS NULL THEN 'RH015'
      WHEN o.outbox_id IS NOT NULL THEN 'RH007'
      ELSE a.fault ->> 'code'
    END AS code) v
  LEFT JOIN unnest(undecided) AS u(item) ON u.item = a.item
  WHERE u.item IS NULL
  ORDER BY a.item;
  FOR one IN
    SELECT a.*
    FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", $4 COLLATE "C", $5, $6, $7, $8, $9, $10) WITH ORDINALITY
      AS a(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, expires_at, priority,
        headers, send_once, item)
    JOIN unnest(undecided) AS u(item) ON u.item = a.item
    ORDER BY a.item
  LOOP
    item := one.item;
    SELECT NULL, NULL, NULL, NULL, NULL, NULL INTO error_code, error_message, error_hint, error_field, error_rule,
      error_detail;
    BEGIN
      SELECT e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.differs
      INTO STRICT outbox_id, sequence_id, created_at, state, replayed, differs
      FROM {cell}.enqueue_payment_outbox(one.instruction_id, one.participant_id, one.idempotency_key, one.rail_type,
        one.payload, one.not_before,
        one.expires_at, CASE WHEN $8 IS NULL THEN 1 ELSE one.priority END, CASE WHEN $9 IS NULL THEN '{}'
          ELSE one.headers END, one.send_once) e;
    EXCEPTION WHEN OTHERS THEN
      IF SQLSTATE NOT LIKE 'RH%' THEN
        RAISE;
      END IF;
      GET STACKED DIAGNOSTICS error_code = RETURNED_SQLSTATE, error_message = MESSAGE_TEXT,
        error_hint = PG_EXCEPTION_HINT, error_field = COLUMN_NAME, error_rule = CONSTRAINT_NAME,
        error_detail = PG_EXCEPTION_DETAIL;
      SELECT NULL, NULL, NULL, NULL, NULL, NULL INTO outbox_id, sequence_id, created_at, state, replayed, differs;
    END;
    RETURN NEXT;
  END LOOP;
  IF NOT waits THEN
    PERFORM set_config('lock_timeout', patience, true);
  END IF;
END
$$;
-- end of enqueue_payment_outbox_arrays

-- function freeze_bucket
CREATE OR REPLACE FUNCTION {cell}.freeze_bucket(bucket integer, cell text, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
AS $$
DECLARE
  taker {cell}.payment_cells;
  held  {cell}.payment_buckets;
  known text;
  stop  record;
BEGIN
  PERFORM {cell}.require_reason(freeze_bucket.reason);
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_settled_server('moving buckets');
  PERFORM {cell}.require_confirmed_map('moving buckets');
  IF {cell}.forgotten_calls_until() > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('until %s callers may repeat calls that this database has forgotten: another cell would send their payments as new ones',
        to_char({cell}.forgotten_calls_until(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
      HINT = 'Move the buckets after that time (repeated_within of payment_outbox_settings after the acceptance).';
  END IF;
  SELECT c.* INTO taker FROM {cell}.payment_cells c WHERE c.name = freeze_bucket.cell COLLATE "C" AND NOT c.here;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no other cell %s', coalesce(quote_literal(left(freeze_bucket.cell, 64)), 'NULL')),
      HINT = 'Add it first: railhead cell add.';
  END IF;
  IF taker.rail_key_namespace IS DISTINCT FROM (SELECT s.rail_key_namespace FROM {cell}.payment_outbox_settings s) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s derives other rail keys than this one: a rail would not recognise a payment that both send',
        taker.name),
      HINT = 'The directory was begun by an older version. Begin a new one with new cells.';
  END IF;
  SELECT b.* INTO held FROM {cell}.payment_buckets b WHERE b.bucket = freeze_bucket.bucket FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'buckets are numbers of 0 to 1023';
  END IF;
  IF NOT held.mine THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = format('this cell does not take bucket %s', held.bucket),
      HINT = 'Only the cell that takes a bucket can move it.';
  END IF;
  IF {cell}.bucket_is_leaving(held.version, held.leaving) THEN
    SELECT m.cell INTO STRICT known FROM {cell}.payment_bucket_moves m
    WHERE m.bucket = held.bucket AND m.version = held.leaving;
    IF known = taker.name THEN
      RETURN held.leaving;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('bucket %s is being moved to cell %s', held.bucket, known),
      HINT = 'Complete that move, or end it: railhead cell move --cancel.';
  END IF;
  SELECT w.participant_id, w.why INTO stop
  FROM (
    SELECT h.participant_id, 'it is paused here, and would not be there: resume it first' AS why
    FROM {cell}.payment_paused_participants h
    UNION ALL
    SELECT g.name, 'its gate is closed here, and would not be there: open it first'
    FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant') w
  JOIN {cell}.participant_outbox_sequences s ON s.participant_id = w.participant_id
  WHERE {cell}.cell_bucket(w.participant_id) = held.bucket
  ORDER BY w.participant_id
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('participant %s of bucket %s can''t be moved now: %s', quote_literal(stop.participant_id),
        held.bucket, stop.why),
      HINT = 'Nothing was changed.';
  END IF;
  INSERT INTO {cell}.payment_bucket_moves (bucket, version, cell, reason)
  VALUES (held.bucket, held.version + 1, taker.name, freeze_bucket.reason);
  UPDATE {cell}.payment_buckets b SET leaving = b.version + 1 WHERE b.bucket = held.bucket;
  PERFORM {cell}.log_operator_act('FREEZE_BUCKET', taker.name, NULL, freeze_bucket.reason,
    jsonb_build_object('bucket', held.bucket, 'version', held.version + 1));
  RETURN held.version + 1;
END
$$;
-- end of freeze_bucket

-- function give_buckets
CREATE OR REPLACE FUNCTION {cell}.give_buckets(buckets integer[], cell text, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
AS $$
DECLARE
  given CONSTANT integer[] := ARRAY(SELECT DISTINCT g FROM unnest(give_buckets.buckets) AS g ORDER BY g);
  here  text COLLATE "C";
  taker {cell}.payment_cells;
  held  record;
BEGIN
  PERFORM {cell}.require_reason(give_buckets.reason);
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_settled_server('giving buckets away');
  PERFORM {cell}.require_confirmed_map('giving buckets away');
  IF {cell}.forgotten_calls_until() > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('until %s callers may repeat calls that this database has forgotten: their participants are not known here, and another cell would send their payments as new ones',
        to_char({cell}.forgotten_calls_until(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
      HINT = 'Give the buckets away after that time (repeated_within of payment_outbox_settings after the acceptance).';
  END IF;
  IF given = '{}' OR array_position(given, NULL) IS NOT NULL OR given[1] < 0 OR given[cardinality(given)] > 1023 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'buckets are numbers of 0 to 1023';
  END IF;
  SELECT c.name INTO here FROM {cell}.payment_cells c WHERE c.here;
  SELECT c.* INTO taker FROM {cell}.payment_cells c WHERE c.name = give_buckets.cell COLLATE "C" AND NOT c.here;
  IF NOT FOUND OR here IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no other cell %s', coalesce(quote_literal(left(give_buckets.cell, 64)), 'NULL')),
      HINT = 'Add it first: railhead cell add.';
  END IF;
  IF taker.rail_key_namespace IS DISTINCT FROM (SELECT s.rail_key_namespace FROM {cell}.payment_outbox_settings s) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s derives other rail keys than this one: a rail would not recognise a payment that both send',
        taker.name),
      HINT = 'The directory was begun by an older version. Begin a new one with new cells.';
  END IF;
  PERFORM FROM {cell}.payment_buckets b WHERE b.bucket = ANY (given) ORDER BY b.bucket FOR UPDATE;
  SELECT count(*) AS n, min(b.bucket) AS first INTO held
  FROM {cell}.payment_buckets b
  WHERE b.bucket = ANY (given) AND NOT b.mine;
  IF held.n > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell does not take %s of the buckets, such as bucket %s', held.n, held.first),
      HINT = 'Only the cell that takes a bucket can give it.';
  END IF;
  SELECT m.bucket, m.cell INTO held
  FROM {cell}.payment_buckets b
  JOIN {cell}.payment_bucket_moves m ON m.bucket = b.bucket AND m.version = b.leaving
  WHERE b.bucket = ANY (given) AND {cell}.bucket_is_leaving(b.version, b.leaving)
    AND (m.digest IS NULL OR m.cell <> taker.name)
  ORDER BY m.bucket
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('bucket %s is being moved to cell %s, and is not given before', held.bucket, held.cell),
      HINT = 'Complete the move, or end it: railhead cell move --cancel.';
  END IF;
  -- A new statement: it sees every participant whose transaction the locks have waited for.
  SELECT count(*) AS n, count(DISTINCT p.bucket) AS buckets, min(p.bucket) AS first INTO held
  FROM (SELECT {cell}.cell_bucket(s.participant_id) AS bucket FROM {cell}.participant_outbox_sequences s OFFSET 0) p
  WHERE p.bucket = ANY (given);
  IF held.n > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('%s participants of %s of the buckets, such as bucket %s, have payments in this cell', held.n,
        held.buckets, held.first),
      HINT = 'railhead cell move moves their participants; the payments stay here.';
  END IF;
  INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, digest, reason)
  SELECT b.bucket, b.version + 1, taker.name, taker.cell_id, coalesce(m.digest, ''), give_buckets.reason
  FROM {cell}.payment_buckets b
  LEFT JOIN {cell}.payment_bucket_moves m ON m.bucket = b.bucket AND m.version = b.version + 1 AND b.leaving = m.version
  WHERE b.bucket = ANY (given);
  UPDATE {cell}.payment_buckets b SET cell = taker.name, version = b.version + 1, mine = false
  WHERE b.bucket = ANY (given);
  PERFORM {cell}.log_operator_act('GIVE_BUCKETS', taker.name, NULL, give_buckets.reason,
    jsonb_build_object('buckets', to_jsonb(given)));
  RETURN cardinality(given);
END
$$;
-- end of give_buckets

-- function keep_arrived_key
CREATE OR REPLACE FUNCTION {cell}.keep_arrived_key() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF TG_OP = 'DELETE' AND NOT EXISTS (
    SELECT FROM {cell}.payment_arrivals a
    WHERE a.bucket = OLD.bucket AND a.version = OLD.version AND a.taken_at IS NOT NULL)
  THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'P0001',
    MESSAGE = format('%s of %I.%I is refused', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME),
    HINT = 'Calls are answered by its rows. They are removed only with a move that was not completed.';
END
$$;
-- end of keep_arrived_key

-- function keep_out_bucket
CREATE OR REPLACE FUNCTION {cell}.keep_out_bucket() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  promised text;
BEGIN
  SELECT k.digest INTO promised FROM {cell}.payment_cell_changes k
  WHERE k.bucket = NEW.bucket AND k.version = NEW.version;
  IF coalesce(promised, '') <> '' AND NOT EXISTS (
    SELECT FROM {cell}.payment_arrivals a
    WHERE a.bucket = NEW.bucket AND a.version = NEW.version AND a.digest = promised AND a.complete_at IS NOT NULL)
  THEN
    NEW.mine := false;
    RETURN NEW;
  END IF;
  UPDATE {cell}.payment_arrivals a SET taken_at = clock_timestamp()
  WHERE a.bucket = NEW.bucket AND a.version <= NEW.version AND a.complete_at IS NOT NULL AND a.taken_at IS NULL
    AND CASE WHEN EXISTS (
        SELECT FROM {cell}.payment_cell_changes k
        WHERE k.bucket = a.bucket AND k.version = a.version AND NOT k.settles)
      THEN EXISTS (
        SELECT FROM {cell}.payment_cell_changes k
        WHERE k.bucket = a.bucket AND k.version = a.version AND k.digest = a.digest)
      ELSE EXISTS (
        SELECT FROM {cell}.payment_cell_changes k
        JOIN {cell}.payment_cells h ON h.cell_id = k.cell_id AND h.here
        WHERE k.bucket = a.bucket AND k.version >= a.version AND k.settles) END;
  RETURN NEW;
END
$$;
-- end of keep_out_bucket

-- function learn_cells
CREATE OR REPLACE FUNCTION {cell}.learn_cells(directory_id uuid, cells jsonb, changes jsonb, servers jsonb DEFAULT NULL,
  OUT learned integer, OUT contradicted integer, OUT later integer, OUT left_behind integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  here     {cell}.payment_cells;
  touched  integer[];
  disputed integer[]; -- about which two changes contradict each other
  ended    integer[]; -- that this cell took until now
  named    text;
  arrived  integer[]; -- the buckets that it begins to take
BEGIN
  PERFORM {cell}.require_durable_map();
  SELECT c.* INTO here FROM {cell}.payment_cells c WHERE c.here;
  IF here.directory_id IS DISTINCT FROM learn_cells.directory_id THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'this database is not a cell of that directory',
      HINT = 'Add it first: railhead cell add.';
  END IF;
  IF servers IS NULL AND changes <> '[]' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'it is not said on which servers the maps were read',
      HINT = 'Copy the map with this version: railhead cell sync.';
  END IF;
  PERFORM {cell}.require_cell_servers(servers);
  SELECT c.name INTO named
  FROM jsonb_to_recordset(cells) AS c(name text, cell_id uuid, setting text, cell_schema text, rail_key_namespace uuid,
    joined_with uuid)
  JOIN {cell}.payment_cells k ON k.name = c.name COLLATE "C" OR k.cell_id = c.cell_id
  WHERE (k.name, k.cell_id, k.setting, k.cell_schema, k.rail_key_namespace, k.joined_with)
    IS DISTINCT FROM (c.name, c.cell_id, c.setting, c.cell_schema, c.rail_key_namespace, c.joined_with)
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s of the copy is not the cell of that name that this cell knows', left(named, 64)),
      HINT = 'Two databases were given one name, or a setting leads to another database.';
  END IF;
  SELECT c.name INTO named
  FROM jsonb_to_recordset(cells) AS c(name text, rail_key_namespace uuid)
  WHERE c.rail_key_namespace IS DISTINCT FROM here.rail_key_namespace
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s of the copy derives other rail keys than this cell', left(named, 64)),
      HINT = 'The directory was begun by an older version. Begin a new one with new cells.';
  END IF;
  INSERT INTO {cell}.payment_cells (name, cell_id, setting, cell_schema, directory_id, here, rail_key_namespace,
    joined_with, reason, added_by, added_at)
  SELECT c.name, c.cell_id, c.setting, c.cell_schema, learn_cells.directory_id, false, c.rail_key_namespace,
    c.joined_with, c.reason, c.added_by, c.added_at
  FROM jsonb_to_recordset(cells) AS c(name text, cell_id uuid, setting text, cell_schema text, rail_key_namespace uuid,
    joined_with uuid, reason text, added_by text, added_at timestamptz)
  ON CONFLICT ON CONSTRAINT payment_cells_pk DO NOTHING;

  touched := ARRAY(
    SELECT DISTINCT c.bucket FROM jsonb_to_recordset(changes) AS c(bucket integer) ORDER BY c.bucket);
  PERFORM FROM {cell}.payment_buckets b
  WHERE b.bucket = ANY (touched) OR b.cell = here.name AND NOT b.mine
  ORDER BY b.bucket FOR UPDATE;
  -- What was settled replaces every change before it.
  WITH given AS (
    SELECT c.* FROM jsonb_to_recordset(changes) AS c(bucket integer, version integer, cell_id uuid, settles boolean,
      digest text)
  ),
  settled AS (
    SELECT s.bucket, max(s.version) AS version
    FROM (
      SELECT g.bucket, g.version FROM given g WHERE g.settles
      UNION ALL
      SELECT k.bucket, k.version FROM {cell}.payment_cell_changes k WHERE k.bucket = ANY (touched) AND k.settles) s
    GROUP BY s.bucket
  )
  SELECT ARRAY(
      SELECT DISTINCT g.bucket
      FROM given g
      JOIN {cell}.payment_cell_changes k ON k.bucket = g.bucket AND k.version = g.version
      LEFT JOIN settled s ON s.bucket = g.bucket
      WHERE (k.cell_id IS DISTINCT FROM g.cell_id OR k.digest <> g.digest AND k.digest <> '' AND g.digest <> '')
        AND g.version >= coalesce(s.version, 0)
      UNION
      SELECT g.bucket
      FROM given g
      LEFT JOIN settled s ON s.bucket = g.bucket
      WHERE g.version >= coalesce(s.version, 0)
      GROUP BY g.bucket, g.version
      HAVING count(DISTINCT g.cell_id) > 1 OR count(DISTINCT nullif(g.digest, '')) > 1
      UNION
      SELECT b.bucket
      FROM {cell}.payment_buckets b
      LEFT JOIN settled s ON s.bucket = b.bucket
      WHERE b.bucket = ANY (touched) AND b.contradicted AND coalesce(s.version, 0) <= b.version)
  INTO disputed;

  IF EXISTS (SELECT FROM jsonb_to_recordset(changes) AS c(digest text) WHERE c.digest IS NULL) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the copy does not say whether participants were moved with a bucket',
      HINT = 'Use a railhead of the version of the newest cell.';
  END IF;
  INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, settles, digest, reason, changed_by, changed_at)
  SELECT c.bucket, c.version, c.cell, c.cell_id, coalesce(c.settles, false), c.digest, c.reason, c.changed_by, c.changed_at
  FROM jsonb_to_recordset(changes) AS c(bucket integer, version integer, cell text, cell_id uuid, settles boolean,
    digest text, reason text, changed_by text, changed_at timestamptz)
  WHERE c.bucket <> ALL (disputed)
  ON CONFLICT ON CONSTRAINT payment_cell_changes_pk DO NOTHING;
  GET DIAGNOSTICS learned = ROW_COUNT;
  IF EXISTS (
    SELECT
    FROM (
      SELECT k.bucket, k.version, max(k.version) OVER of_bucket AS newest,
        coalesce(max(k.version) FILTER (WHERE k.settles) OVER of_bucket, 1) AS oldest
      FROM {cell}.payment_cell_changes k
      WHERE k.bucket = ANY (touched)
      WINDOW of_bucket AS (PARTITION BY k.bucket)) k
    WHERE k.version >= k.oldest
    GROUP BY k.bucket, k.newest, k.oldest
    HAVING count(*) <> k.newest - k.oldest + 1) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'a change of a bucket leaves out the one before it',
      HINT = 'Copy all changes of the other cell.';
  END IF;
  ended := ARRAY(SELECT b.bucket FROM {cell}.payment_buckets b WHERE b.bucket = ANY (touched) AND b.mine);
  -- Each update makes payment_outbox_rules anew, which every enqueue reads.
  IF disputed <> '{}' THEN
    UPDATE {cell}.payment_buckets b
    SET mine = false, contradicted = true
    WHERE b.bucket = ANY (disputed) AND NOT b.contradicted;
  END IF;
  contradicted := cardinality(disputed);
  IF touched <> '{}' THEN
    UPDATE {cell}.payment_buckets b
    SET cell = k.cell, version = k.version, mine = b.mine AND k.cell_id = here.cell_id, contradicted = false
    FROM (
      SELECT DISTINCT ON (k.bucket) k.bucket, k.cell, k.cell_id, k.version
      FROM {cell}.payment_cell_changes k
      WHERE k.bucket = ANY (touched)
      ORDER BY k.bucket, k.version DESC) k
    WHERE b.bucket = k.bucket AND b.bucket <> ALL (disputed) AND b.version < k.version;
  END IF;
  SELECT count(*) INTO later FROM {cell}.payment_buckets b
  WHERE b.cell = here.name AND NOT b.mine AND NOT b.contradicted;
  IF later > 0 AND servers IS NOT NULL AND {cell}.server_is_settled() THEN
    -- keep_out_bucket keeps out those whose participants have not all arrived; those that are known are not tried.
    arrived := ARRAY(
      SELECT b.bucket FROM {cell}.payment_buckets b
      WHERE b.cell = here.name AND NOT b.mine AND NOT b.contradicted AND NOT EXISTS (
        SELECT FROM {cell}.payment_cell_changes k
        WHERE k.bucket = b.bucket AND k.version = b.version AND k.digest <> '' AND NOT EXISTS (
          SELECT FROM {cell}.payment_arrivals a
          WHERE a.bucket = k.bucket AND a.version = k.version AND a.digest = k.digest AND a.complete_at IS NOT NULL)));
    IF arrived <> '{}' THEN
      UPDATE {cell}.payment_buckets b SET mine = true WHERE b.bucket = ANY (arrived);
    END IF;
    SELECT count(*) INTO later FROM {cell}.payment_buckets b
    WHERE b.cell = here.name AND NOT b.mine AND NOT b.contradicted;
    learned := greatest(learned, cardinality(arrived));
  END IF;
  -- What this cell had and has no more was given away by itself, and then forgotten by a restore.
  ended := ARRAY(
    SELECT b.bucket FROM {cell}.payment_buckets b
    WHERE b.bucket = ANY (ended) AND NOT b.mine AND (b.contradicted OR b.cell <> here.name)
    ORDER BY b.bucket);
  left_behind := 0;
  IF ended <> '{}' THEN
    SELECT count(*) INTO left_behind FROM {cell}.participant_outbox_sequences s
    WHERE {cell}.cell_bucket(s.participant_id) = ANY (ended);
  END IF;
  IF learned > 0 OR ended <> '{}' THEN
    PERFORM {cell}.log_operator_act('LEARN_CELLS', here.name, NULL, 'a copy of the map of cells',
      jsonb_build_object('learned', learned, 'contradicted', to_jsonb(disputed), 'later', later,
        'ended', to_jsonb(ended), 'left_behind', left_behind));
  END IF;
END
$$;
-- end of learn_cells

-- function moved_digest
CREATE OR REPLACE FUNCTION {cell}.moved_digest(bucket integer, version integer, arrived boolean,
  OUT participants integer, OUT keys bigint, OUT digest text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH key AS (
    SELECT k.owner, k.sequence_id, k.outbox_id, k.created_at, k.instruction_id, k.idempotency_key, k.fingerprint
    FROM (
      SELECT p.participant_id FROM {cell}.payment_packed_participants p
      WHERE NOT $3 AND p.bucket = $1 AND p.version = $2 OFFSET 0) p
    CROSS JOIN LATERAL {cell}.moved_keys(p.participant_id) k
    UNION ALL
    SELECT a.participant_id, a.sequence_id, a.outbox_id, a.created_at, a.instruction_id, a.idempotency_key,
      a.fingerprint
    FROM {cell}.payment_arrived_keys a
    WHERE $3 AND a.bucket = $1 AND a.version = $2
  ),
  part AS (
    SELECT p.participant_id, p.next_sequence_id, 0 AS n, NULL::bytea AS prints
    FROM {cell}.payment_packed_participants p
    WHERE NOT $3 AND p.bucket = $1 AND p.version = $2
    UNION ALL
    SELECT p.participant_id, p.next_sequence_id, 0, NULL
    FROM {cell}.payment_arrived_participants p
    WHERE $3 AND p.bucket = $1 AND p.version = $2
    UNION ALL
    SELECT k.owner, NULL, count(*), string_agg(sha256(convert_to(jsonb_build_array(k.owner, k.sequence_id, k.outbox_id,
      (extract(epoch FROM k.created_at) * 1000000)::bigint, k.instruction_id, k.idempotency_key,
      encode(k.fingerprint, 'hex'))::text, 'UTF8')), ''::bytea ORDER BY k.sequence_id, k.outbox_id)
    FROM key k
    GROUP BY k.owner
  ),
  one AS (
    SELECT p.participant_id, sum(p.n) AS n,
      sha256(convert_to(jsonb_build_array(p.participant_id, max(p.next_sequence_id))::text, 'UTF8')
        || coalesce(string_agg(p.prints, ''::bytea), ''::bytea)) AS print, count(p.next_sequence_id) AS known
    FROM part p
    GROUP BY p.participant_id
  )
  SELECT coalesce(sum(o.known), 0)::integer, coalesce(sum(o.n), 0)::bigint,
    encode(sha256(coalesce(string_agg(o.print, ''::bytea ORDER BY o.participant_id), ''::bytea)), 'hex')
  FROM one o
$$;
-- end of moved_digest

-- function moved_keys
CREATE OR REPLACE FUNCTION {cell}.moved_keys(participant_id text, after_no bigint DEFAULT -1,
  after_id uuid DEFAULT '00000000-0000-0000-0000-000000000000', most bigint DEFAULT NULL)
RETURNS TABLE (owner text, sequence_id bigint, outbox_id uuid, created_at timestamptz, instruction_id text,
  idempotency_key text, fingerprint bytea)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  (SELECT k.participant_id, k.sequence_id, k.outbox_id, k.created_at, k.instruction_id, k.idempotency_key, k.fingerprint
  FROM {cell}.payment_outbox_keys k
  WHERE k.participant_id = $1 COLLATE "C" AND k.sequence_id >= $2 AND (k.sequence_id, k.outbox_id) > ($2, $3)
  ORDER BY k.participant_id, k.sequence_id, k.outbox_id
  LIMIT $4)
  UNION
  (SELECT DISTINCT k.participant_id, k.sequence_id, k.outbox_id, k.created_at, k.instruction_id, k.idempotency_key,
    k.fingerprint
  FROM {cell}.payment_arrived_keys k
  WHERE k.participant_id = $1 COLLATE "C" AND k.sequence_id >= $2 AND (k.sequence_id, k.outbox_id) > ($2, $3)
    AND (
      SELECT a.taken_at FROM {cell}.payment_arrivals a
      WHERE a.bucket = k.bucket AND a.version = k.version) IS NOT NULL
  ORDER BY k.participant_id, k.sequence_id, k.outbox_id
  LIMIT $4)
  ORDER BY 2, 3
  LIMIT $4;
END
$$;
-- end of moved_keys

-- function name_cell
CREATE OR REPLACE FUNCTION {cell}.name_cell(name text, setting text, cell_schema text, reason text,
  directory_id uuid DEFAULT NULL, cells jsonb DEFAULT '[]', cell_id uuid DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  here   {cell}.payment_cells;
  known  record;
  own    uuid; -- the constant from which this database derives rail keys
  shared uuid; -- that of the directory
  chosen CONSTANT uuid := coalesce(name_cell.directory_id, gen_random_uuid());
  own_id CONSTANT uuid := coalesce(name_cell.cell_id, gen_random_uuid());
BEGIN
  PERFORM {cell}.require_reason(name_cell.reason);
  PERFORM {cell}.require_durable_map();
  IF (name_cell.name COLLATE "C" ~ '^[a-z][a-z0-9_-]{0,62}$' AND name_cell.setting COLLATE "C" ~ '^[A-Z][A-Z0-9_]{0,62}$'
    AND name_cell.cell_schema COLLATE "C" ~ '^[a-z_][a-z0-9_]{0,62}$') IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a cell has a name of lower-case letters, digits, - and _, a schema, and a setting of capitals, digits and _',
      HINT = 'Connection settings are named, and never given: they hold secrets.';
  END IF;
  PERFORM FROM {cell}.payment_buckets b ORDER BY b.bucket FOR UPDATE;
  SELECT c.* INTO here FROM {cell}.payment_cells c WHERE c.here;
  IF FOUND THEN
    IF (here.name, here.setting, here.cell_schema, here.directory_id, here.cell_id) IS DISTINCT FROM
      (name_cell.name, name_cell.setting, name_cell.cell_schema, coalesce(name_cell.directory_id, here.directory_id),
        coalesce(name_cell.cell_id, here.cell_id))
    THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('this database is cell %s (setting %s, schema %s) of directory %s already', here.name,
          here.setting, here.cell_schema, here.directory_id),
        HINT = 'A cell keeps its name, its setting, its schema and its directory.';
    END IF;
    RETURN here.directory_id;
  END IF;
  SELECT c.* INTO known
  FROM jsonb_to_recordset(name_cell.cells) AS c(name text, cell_id uuid, setting text, cell_schema text,
    joined_with uuid)
  WHERE c.name = name_cell.name;
  SELECT s.rail_key_namespace INTO own FROM {cell}.payment_outbox_settings s;
  shared := own;
  IF name_cell.directory_id IS NOT NULL THEN
    SELECT CASE WHEN count(DISTINCT c.rail_key_namespace) = 1 AND count(*) = count(c.rail_key_namespace)
      THEN min(c.rail_key_namespace::text)::uuid END INTO shared
    FROM jsonb_to_recordset(name_cell.cells) AS c(rail_key_namespace uuid);
    IF shared IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'the cells of the directory derive different rail keys',
        HINT = 'The directory was begun by an older version. Begin a new one with new cells.';
    END IF;
  END IF;
  IF name_cell.cell_id IS NULL THEN
    IF known.name IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the directory has a cell %s already', name_cell.name),
        HINT = 'Choose another name. If this is its database, restored to a time before it joined: railhead cell rejoin.';
    END IF;
    PERFORM {cell}.require_settled_server('joining a directory');
    -- A new statement: it sees every participant whose transaction the locks have waited for.
    IF name_cell.directory_id IS NOT NULL AND EXISTS (SELECT FROM {cell}.participant_outbox_sequences) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'participants have enqueued in this cell, whose buckets the directory has given to other cells',
        HINT = 'A cell joins a directory while it is empty: payments stay in the cell where they were enqueued.';
    END IF;
  ELSIF (known.cell_id, known.setting, known.cell_schema) IS DISTINCT FROM
    (name_cell.cell_id, name_cell.setting, name_cell.cell_schema) OR name_cell.directory_id IS NULL
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'the copy of the directory does not have this cell',
      HINT = 'Copy the directory of a cell that has one, and rejoin with the setting and schema that it has.';
  ELSIF own IS DISTINCT FROM known.joined_with THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this database is not that of cell %s: it was never one from which that cell was made', name_cell.name),
      HINT = 'Look where the connection setting leads. A cell whose database is lost can''t rejoin with another one.';
  END IF;
  IF own <> shared THEN
    -- A new statement: it sees every participant whose transaction the locks have waited for.
    IF EXISTS (SELECT FROM {cell}.participant_outbox_sequences) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'participants have enqueued in this database since it was restored to a time before it joined, with other '
          'rail keys than those of the directory',
        HINT = 'Restore it again, to a time after it joined.';
    END IF;
    UPDATE {cell}.payment_outbox_settings SET rail_key_namespace = shared;
  END IF;
  INSERT INTO {cell}.payment_cells (name, cell_id, setting, cell_schema, directory_id, here, rail_key_namespace,
    joined_with, reason)
  VALUES (name_cell.name, own_id, name_cell.setting, name_cell.cell_schema, chosen, true, shared,
    CASE WHEN name_cell.cell_id IS NULL THEN own ELSE known.joined_with END, name_cell.reason);
  IF name_cell.directory_id IS NULL THEN
    INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, reason)
    SELECT b.bucket, 1, name_cell.name, own_id, name_cell.reason FROM {cell}.payment_buckets b;
    UPDATE {cell}.payment_buckets SET cell = name_cell.name, version = 1, mine = true;
  ELSE
    UPDATE {cell}.payment_buckets SET mine = false;
    PERFORM {cell}.learn_cells(chosen, name_cell.cells, '[]');
  END IF;
  PERFORM {cell}.log_operator_act(CASE WHEN name_cell.cell_id IS NULL THEN 'ADD_CELL' ELSE 'REJOIN_CELL' END,
    name_cell.name, NULL, name_cell.reason, jsonb_build_object('setting', name_cell.setting, 'cell_schema',
      name_cell.cell_schema, 'directory_id', chosen, 'cell_id', own_id));
  RETURN chosen;
END
$$;
-- end of name_cell

-- function pack_bucket
CREATE OR REPLACE FUNCTION {cell}.pack_bucket(bucket integer, OUT version integer, OUT participants integer,
  OUT keys bigint, OUT digest text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  held {cell}.payment_buckets;
  move {cell}.payment_bucket_moves;
  those text[] COLLATE "C"; -- the bucket's participants
BEGIN
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_confirmed_map('moving buckets');
  SELECT b.* INTO held FROM {cell}.payment_buckets b WHERE b.bucket = pack_bucket.bucket FOR UPDATE;
  IF NOT FOUND OR NOT held.mine OR NOT {cell}.bucket_is_leaving(held.version, held.leaving) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = format('bucket %s is not being moved', pack_bucket.bucket),
      HINT = 'Begin with railhead cell move.';
  END IF;
  SELECT m.* INTO STRICT move FROM {cell}.payment_bucket_moves m
  WHERE m.bucket = held.bucket AND m.version = held.leaving;
  IF move.digest IS NULL THEN
    -- Refused before it has done anything, where that is known: a caller tries it again and again.
    PERFORM {cell}.require_movable(held.bucket);
    SELECT array_agg(l.participant_id) INTO those
    FROM (
      SELECT s.participant_id FROM {cell}.participant_outbox_sequences s
      WHERE {cell}.cell_bucket(s.participant_id) = held.bucket
      ORDER BY s.participant_id FOR UPDATE) l;
    -- New statements: they see everything that the locks have waited for. No participant can have been added: the
    -- freeze has waited for the transactions of first instructions, and refuses them since.
    WITH gone AS (
      DELETE FROM {cell}.participant_outbox_sequences s
      WHERE s.participant_id = ANY (those)
      RETURNING s.participant_id, s.next_sequence_id, s.moved_in
    )
    INSERT INTO {cell}.payment_packed_participants (bucket, version, participant_id, next_sequence_id, moved_in)
    SELECT held.bucket, held.leaving, g.participant_id, g.next_sequence_id, g.moved_in FROM gone g;
    PERFORM {cell}.require_movable(held.bucket);
    UPDATE {cell}.payment_bucket_moves m
    SET participants = d.participants, keys = d.keys, digest = d.digest, packed_at = clock_timestamp()
    FROM {cell}.moved_digest(held.bucket, held.leaving, false) d
    WHERE m.bucket = held.bucket AND m.version = held.leaving
    RETURNING m.* INTO STRICT move;
    PERFORM {cell}.log_operator_act('PACK_BUCKET', move.cell, NULL, move.reason,
      jsonb_build_object('bucket', move.bucket, 'version', move.version, 'participants', move.participants,
        'keys', move.keys, 'digest', move.digest));
  END IF;
  version := move.version;
  participants := move.participants;
  keys := move.keys;
  digest := move.digest;
END
$$;
-- end of pack_bucket

-- function packed_keys
CREATE OR REPLACE FUNCTION {cell}.packed_keys(bucket integer, version integer, after text, after_no bigint,
  after_id uuid, most integer) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  most  CONSTANT integer := least($6, 10000);
  parts jsonb[] := '{}'; -- the keys of each participant
  part  jsonb;
  n     integer := 0;
  one   text COLLATE "C";
BEGIN
  FOR one IN
    SELECT p.participant_id FROM {cell}.payment_packed_participants p
    WHERE p.bucket = $1 AND p.version = $2 AND p.participant_id >= $3 COLLATE "C"
    ORDER BY p.participant_id
  LOOP
    SELECT coalesce(jsonb_agg(jsonb_build_object('participant_id', k.owner, 'sequence_id', k.sequence_id,
      'outbox_id', k.outbox_id, 'created_at', k.created_at, 'instruction_id', k.instruction_id,
      'idempotency_key', k.idempotency_key, 'fingerprint', encode(k.fingerprint, 'hex'))
      ORDER BY k.sequence_id, k.outbox_id), '[]') INTO part
    FROM {cell}.moved_keys(one, CASE WHEN one = $3 COLLATE "C" THEN $4 ELSE -1 END, $5, most - n) k;
    parts := parts || part;
    n := n + jsonb_array_length(part);
    EXIT WHEN n >= most;
  END LOOP;
  RETURN (
    SELECT coalesce(jsonb_agg(k.key ORDER BY p.place, k.place), '[]')
    FROM unnest(parts) WITH ORDINALITY AS p(keys, place)
    CROSS JOIN LATERAL jsonb_array_elements(p.keys) WITH ORDINALITY AS k(key, place));
END
$$;
-- end of packed_keys

-- function packed_participants
CREATE OR REPLACE FUNCTION {cell}.packed_participants(bucket integer, version integer, after text, most integer)
RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT coalesce(jsonb_agg(to_jsonb(p) ORDER BY p.participant_id), '[]')
  FROM (
    SELECT p.participant_id, p.next_sequence_id FROM {cell}.payment_packed_participants p
    WHERE p.bucket = $1 AND p.version = $2 AND p.participant_id > $3 COLLATE "C"
    ORDER BY p.participant_id
    LIMIT least($4, 10000)) p
$$;
-- end of packed_participants

-- function pause_participant
CREATE OR REPLACE FUNCTION {cell}.pause_participant(participant_id text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  paused boolean;
BEGIN
  PERFORM {cell}.require_reason(pause_participant.reason);
  PERFORM {cell}.require_end(pause_participant.until);
  IF NOT EXISTS (SELECT FROM {cell}.participant_outbox_sequences s
    WHERE s.participant_id = pause_participant.participant_id)
    AND NOT EXISTS (SELECT FROM {cell}.payment_packed_participants p
      WHERE p.participant_id = pause_participant.participant_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'this participant has never enqueued anything here',
      HINT = 'Check the participant_id.';
  END IF;
  INSERT INTO {cell}.payment_paused_participants (participant_id, paused_by, pause_reason, paused_until)
  VALUES (pause_participant.participant_id, session_user, left(pause_participant.reason, 500), pause_participant.until)
  ON CONFLICT DO NOTHING;
  paused := FOUND;
  IF NOT paused THEN
    UPDATE {cell}.payment_paused_participants p
    SET paused_until = pause_participant.until
    WHERE p.participant_id = pause_participant.participant_id
      AND (p.paused_until < pause_participant.until OR p.paused_until IS NOT NULL AND pause_participant.until IS NULL);
  END IF;
  PERFORM {cell}.log_operator_act('PAUSE_PARTICIPANT', pause_participant.participant_id, NULL, pause_participant.reason,
    jsonb_strip_nulls(jsonb_build_object('until', pause_participant.until)));
  RETURN paused;
END
$$;
-- end of pause_participant

-- function payment_outbox_violation
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_violation(
  instruction_id text, participant_id text, idempotency_key text, rail_type text, payload jsonb,
  not_before timestamptz, expires_at timestamptz, priority integer, headers jsonb)
RETURNS TABLE (code text, message text, hint text, field text, rule text, detail text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  -- Without a collation of their own, these would use the caller's, by which an I may fold to a
  -- letter other than i.
  amount   CONSTANT text COLLATE "C" := payload ->> 'amount';
  written  CONSTANT text COLLATE "C" := payload::text;
  folded   CONSTANT text COLLATE "C" := lower(written);
  missing  text COLLATE "C";
  facts    record;
BEGIN
  -- One statement reads everything that the checks need. A forbidden key can only be present if its
  -- name occurs in the text as a key; the exact check is below. The depth is only computed if the
  -- text has enough brackets.
  SELECT s.payload_bytes_max, s.headers_bytes_max, s.payload_depth_max, s.refuse_card_numbers,
    (SELECT r.own_buckets FROM {cell}.payment_outbox_rules r) AS own_buckets,
    EXISTS (
      SELECT FROM {cell}.payment_rails r
      WHERE r.rail_type = payment_outbox_violation.rail_type COLLATE "C"
        AND r.profile_version IS NOT NULL) AS rail_known,
    coalesce(payload -> 'amount', 'null') = 'null' AND coalesce(payload -> 'currency', 'null') = 'null'
      AND EXISTS (
        SELECT FROM {cell}.payment_rails r
        JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
        WHERE r.rail_type = payment_outbox_violation.rail_type COLLATE "C"
          AND p.profile ->> 'kind' = 'message') AS no_amount,
    (SELECT c.exponent FROM {cell}.payment_currencies c
     WHERE c.code = payload ->> 'currency' AND jsonb_typeof(payload -> 'currency') = 'string') AS digits,
    (SELECT r.required -> (rail_type COLLATE "C") FROM {cell}.payment_outbox_rules r) AS required,
    EXISTS (SELECT FROM {cell}.payment_forbidden_keys f
      WHERE strpos(folded, '"' || f.key || '":') > 0) AS maybe_forbidden
  INTO STRICT facts
  FROM {cell}.payment_outbox_settings s;

  code := 'RH002';
  hint := 'See docs/ingest.md for the form of an instruction.';
  CASE
    WHEN instruction_id IS NULL OR length(instruction_id) NOT BETWEEN 1 AND 128 OR instruction_id COLLATE "C" ~ '[^ -~]'
      OR instruction_id COLLATE "C" <> btrim(instruction_id) THEN
      field := 'instruction_id'; rule := 'FORM';
      message := 'instruction_id must be 1 to 128 printable ASCII characters without spaces at '
        'its ends'; RETURN NEXT; RETURN;
    WHEN participant_id IS NULL OR length(participant_id) NOT BETWEEN 1 AND 128 OR participant_id COLLATE "C" ~ '[^ -~]'
      OR participant_id COLLATE "C" <> btrim(participant_id) THEN
      field := 'participant_id'; rule := 'FORM';
      message := 'participant_id must be 1 to 128 printable ASCII characters without spaces at '
        'its ends'; RETURN NEXT; RETURN;
    WHEN idempotency_key IS NULL OR length(idempotency_key) NOT BETWEEN 1 AND 128
      OR idempotency_key COLLATE "C" ~ '[^ -~]'
      OR idempotency_key COLLATE "C" <> btrim(idempotency_key) THEN
      field := 'idempotency_key'; rule := 'FORM';
      message := 'idempotency_key must be 1 to 128 printable ASCII characters without spaces at '
        'its ends'; RETURN NEXT; RETURN;
    -- Another cell may know other rails and limits, so nothing else is said of the instruction here.
    WHEN NOT {cell}.takes_participant(facts.own_buckets, participant_id) THEN
      code := 'RH009';
      field := 'participant_id'; rule := 'CELL';
      SELECT
        CASE
          WHEN b.contradicted THEN format(
            'the maps of cells contradict each other about bucket %s of the participant, so that no cell takes it', b.bucket)
          WHEN {cell}.bucket_is_leaving(b.version, b.leaving) THEN format(
            'bucket %s of the participant is being moved to cell %s, and no cell takes it meanwhile', b.bucket,
            (SELECT m.cell FROM {cell}.payment_bucket_moves m WHERE m.bucket = b.bucket AND m.version = b.leaving))
          WHEN b.mine THEN 'the server of this cell was started or promoted, and may have gone back in time: until its map '
            'was compared with those of the other cells, it takes no instruction'
          WHEN b.cell IS NULL OR EXISTS (SELECT FROM {cell}.payment_cells c WHERE c.here AND c.name = b.cell)
            THEN format('this cell does not take bucket %s of the participant yet: it has to learn the map of cells', b.bucket)
          ELSE format('the participant belongs to cell %s: bucket %s, version %s of its map', b.cell, b.bucket, b.version)
        END,
        CASE WHEN {cell}.bucket_is_leaving(b.version, b.leaving)
          THEN 'This call stored nothing; one with the same key that is under way may. Repeat it later with the same '
            'key and content.'
          WHEN b.mine OR b.contradicted OR b.cell IS NULL
          THEN 'Nothing was stored. Repeat it later with the same key and content.'
          ELSE 'Nothing was stored here. Read the map again, and enqueue it there with the same key.' END
      INTO message, hint
      FROM {cell}.payment_buckets b
      WHERE b.bucket = {cell}.cell_bucket(participant_id);
      RETURN NEXT; RETURN;
    WHEN payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
      field := 'payload'; rule := 'OBJECT';
      message := 'payload must be a JSON object'; RETURN NEXT; RETURN;
    WHEN headers IS NULL OR jsonb_typeof(headers) <> 'object'
      OR headers <> '{}' AND jsonb_path_exists(headers, 'strict $.* ? (@.type() <> "string")') THEN
      field := 'headers'; rule := 'OBJECT';
      message := 'headers must be a JSON object of strings'; RETURN NEXT; RETURN;
    WHEN priority IS NULL OR priority NOT BETWEEN 0 AND 2 THEN
      field := 'priority'; rule := 'RANGE';
      message := 'priority must be 0 (urgent), 1 (normal) or 2 (bulk)'; RETURN NEXT; RETURN;
    WHEN not_before > clock_timestamp() + interval '366 days' OR not_before = '-infinity' THEN
      field := 'not_before'; rule := 'RANGE';
      message := 'not_before must be a moment at most 366 days ahead'; RETURN NEXT; RETURN;
    WHEN expires_at = 'infinity' THEN
      field := 'expires_at'; rule := 'RANGE';
      message := 'expires_at must be a moment; leave it out for an instruction that never expires'; RETURN NEXT; RETURN;
    WHEN not_before >= expires_at THEN
      field := 'expires_at'; rule := 'AFTER_NOT_BEFORE';
      message := 'expires_at must be after not_before'; RETURN NEXT; RETURN;
    WHEN NOT facts.rail_known THEN
      code := 'RH003';
      field := 'rail_type'; rule := 'KNOWN';
      message := format('rail_type %s is not known to this cell', coalesce(quote_literal(left(rail_type, 64)), 'NULL'));
      hint := 'Known rails are in payment_rails; an operator adds one with: railhead rail apply FILE.';
      RETURN NEXT; RETURN;
    WHEN octet_length(written) > facts.payload_bytes_max THEN
      code := 'RH005';
      field := 'payload'; rule := 'SIZE';
      message := format('payload is %s bytes, more than %s', octet_length(written), facts.payload_bytes_max);
      hint := 'Send references to documents, not documents.'; RETURN NEXT; RETURN;
    WHEN octet_length(headers::text) > facts.headers_bytes_max THEN
      code := 'RH005';
      field := 'headers'; rule := 'SIZE';
      message := format('headers are %s bytes, more than %s', octet_length(headers::text), facts.headers_bytes_max);
      hint := 'Headers carry trace context only.'; RETURN NEXT; RETURN;
    WHEN length(written) - length(translate(written, '{[', '')) >= facts.payload_depth_max
      AND jsonb_path_exists(payload, format('strict $.**{%s}', facts.payload_depth_max)::jsonpath) THEN
      code := 'RH005';
      field := 'payload'; rule := 'DEPTH';
      message := format('payload is nested deeper than %s levels', facts.payload_depth_max - 1);
      hint := 'Flatten it.'; RETURN NEXT; RETURN;
    ELSE
      NULL;
  END CASE;

  IF facts.maybe_forbidden THEN
    SELECT format('payload holds the forbidden key "%s"', f.key) INTO message
    FROM jsonb_path_query(payload, 'strict $.** ? (@.type() == "object").keyvalue().key') AS found(key)
    JOIN {cell}.payment_forbidden_keys f ON f.key = lower((found.key #>> '{}') COLLATE "C")
    LIMIT 1;
    IF FOUND THEN
      code := 'RH004';
      field := 'payload'; rule := 'FORBIDDEN_KEY';
      hint := 'Documents, secrets and card data must stay outside Railhead; send a reference '
        'instead.'; RETURN NEXT; RETURN;
    END IF;
  END IF;

  IF headers <> '{}' THEN
    SELECT format('headers hold the forbidden key "%s"', f.key) INTO message
    FROM jsonb_object_keys(headers) AS found(key)
    JOIN {cell}.payment_forbidden_keys f ON f.key = lower(found.key COLLATE "C")
    LIMIT 1;
    IF FOUND THEN
      code := 'RH004';
      field := 'headers'; rule := 'FORBIDDEN_KEY';
      hint := 'Headers carry trace context only. Documents, secrets and card data must stay '
        'outside Railhead.'; RETURN NEXT; RETURN;
    END IF;
  END IF;

  IF facts.refuse_card_numbers THEN
    SELECT CASE WHEN card = '' OR card ~ '[0-9]{6}' THEN 'payload holds a card number'
      ELSE format('payload holds a card number under the key "%s"', left(card, 64)) END INTO message
    FROM {cell}.card_number_under(payload) AS card
    WHERE card IS NOT NULL;
    IF FOUND THEN
      code := 'RH008';
      field := 'payload'; rule := 'CARD_NUMBER';
      hint := 'Card data must stay outside Railhead; send a token of it. An account number, IBAN, reference or id '
        'that only looks like one goes under a key that names it as such.';
      RETURN NEXT; RETURN;
    END IF;
  END IF;

  missing := {cell}.missing_field(facts.required, payload);
  IF missing IS NOT NULL THEN
    field := 'payload.' || missing;
    rule := 'MISSING';
    message := format('payload.%s is missing: rail %s needs it', missing, rail_type);
    hint := 'The fields that a rail requires in a payload are in its configuration and in payment_outbox_rules.';
    RETURN NEXT;
    RETURN;
  END IF;

  hint := 'An amount is a decimal string such as "10.50" with a currency such as "EUR".';
  CASE
    WHEN NOT facts.no_amount AND coalesce(payload -> 'amount', 'null') = 'null' THEN
      field := 'payload.amount'; rule := 'MISSING';
      message := 'payload.amount is missing'; RETURN NEXT; RETURN;
    WHEN NOT facts.no_amount AND coalesce(payload -> 'currency', 'null') = 'null' THEN
      field := 'payload.currency'; rule := 'MISSING';
      message := 'payload.currency is missing'; RETURN NEXT; RETURN;
    WHEN NOT facts.no_amount AND (jsonb_typeof(payload -> 'amount') IS DISTINCT FROM 'string'
      OR amount !~ '^(0|[1-9][0-9]{0,18})([.][0-9]{1,4})?$') THEN
      field := 'payload.amount'; rule := 'FORM';
      message := 'payload.amount must be a JSON string with a decimal number: no sign, exponent, leading zero or JSON '
        'number';
      RETURN NEXT; RETURN;
    WHEN NOT facts.no_amount AND facts.digits IS NULL THEN
      field := 'payload.currency'; rule := 'CURRENCY';
      message := 'payload.currency must be an ISO 4217 code that has a minor unit'; RETURN NEXT; RETURN;
    WHEN length(split_part(amount, '.', 2)) > facts.digits THEN
      field := 'payload.amount'; rule := 'DECIMALS';
      message := format('payload.amount has more decimals than the %s of its currency',
        facts.digits); RETURN NEXT; RETURN;
    WHEN amount !~ '[1-9]' THEN
      field := 'payload.amount'; rule := 'ZERO';
      message := 'payload.amount must not be zero'; RETURN NEXT; RETURN;
    WHEN length(amount) > 14 AND amount::numeric * 10::numeric ^ facts.digits::numeric > 9223372036854775807 THEN
      field := 'payload.amount'; rule := 'RANGE';
      message := 'payload.amount is beyond 9223372036854775807 minor units'; RETURN NEXT; RETURN;
    WHEN expires_at <= clock_timestamp() THEN
      code := 'RH006';
      field := 'expires_at'; rule := 'EXPIRED';
      message := 'the instruction has already expired';
      hint := 'Enqueue it with a later expires_at, if it still should be paid.'; RETURN NEXT; RETURN;
    ELSE
      NULL;
  END CASE;

  -- This is the last check, so that only a call that would have been accepted is advised to retry.
  -- If several gates apply, the message names the one that opens last.
  SELECT format('enqueue is closed for %s by %s since %s%s: %s', g.what, g.closed_by,
    to_char(g.closed_at AT TIME ZONE 'UTC', g.form),
      ' until ' || to_char(g.closed_until AT TIME ZONE 'UTC', g.form), g.close_reason),
    CASE g.scope WHEN 'rail' THEN 'rail_type' WHEN 'participant' THEN 'participant_id' ELSE 'cell' END,
    'Closed: ' || string_agg(g.what, ', ') OVER (ORDER BY g.scope ROWS BETWEEN UNBOUNDED PRECEDING
      AND UNBOUNDED FOLLOWING) || '.'
  INTO message, field, detail
  FROM (
    SELECT c.scope, c.closed_by, c.closed_at, c.closed_until, c.close_reason, 'YYYY-MM-DD"T"HH24:MI:SS"Z"' AS form,
      CASE c.scope WHEN 'cell' THEN 'everything' ELSE c.scope || ' ' || c.name END AS what
    FROM {cell}.payment_closed_gates c
    WHERE (c.scope, c.name) IN (('cell', '*'), ('rail', rail_type COLLATE "C"),
      ('participant', participant_id COLLATE "C"))) g
  ORDER BY g.closed_until DESC NULLS FIRST, g.scope
  LIMIT 1;
  IF FOUND THEN
    code := 'RH014';
    rule := 'CLOSED';
    hint := 'Nothing was stored. Send the same call again, with the same key, once enqueue is open.';
    RETURN NEXT;
  END IF;
END
$$;
-- end of payment_outbox_violation

-- function put_in_participants
CREATE OR REPLACE FUNCTION {cell}.put_in_participants() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id, moved_in)
  SELECT p.participant_id, max(p.next_sequence_id), true
  FROM (
    SELECT a.participant_id, a.next_sequence_id
    FROM {cell}.payment_arrived_participants a
    JOIN {cell}.payment_arrivals v ON v.bucket = a.bucket AND v.version = a.version AND v.taken_at IS NOT NULL
    WHERE a.bucket = NEW.bucket
    UNION ALL
    SELECT k.participant_id, k.next_sequence_id FROM {cell}.payment_packed_participants k WHERE k.bucket = NEW.bucket) p
  GROUP BY p.participant_id
  ORDER BY p.participant_id
  ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
  DO UPDATE SET next_sequence_id = greatest(s.next_sequence_id, excluded.next_sequence_id), moved_in = true;
  RETURN NULL;
END
$$;
-- end of put_in_participants

-- function refresh_outbox_rules
CREATE OR REPLACE FUNCTION {cell}.refresh_outbox_rules() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE;
  INSERT INTO {cell}.payment_outbox_rules AS r
    (allow_second_key, rail_key_namespace, payload_bytes_max, headers_bytes_max, payload_depth_max, refuse_card_numbers,
      rail_types, forbidden, digits,
      required, closed_gates, own_buckets, confirmed_start)
  SELECT s.allow_second_key, s.rail_key_namespace, s.payload_bytes_max, s.headers_bytes_max, s.payload_depth_max,
    s.refuse_card_numbers, ARRAY(SELECT p.rail_type FROM {cell}.payment_rails p WHERE p.profile_version IS NOT NULL
      ORDER BY p.rail_type),
    ARRAY(
      SELECT '%' || replace(replace(replace(f.key, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_') || '":%'
      FROM {cell}.payment_forbidden_keys f ORDER BY f.key),
    (SELECT coalesce(jsonb_object_agg(c.code, c.exponent), '{}') FROM {cell}.payment_currencies c),
    {cell}.required_fields(),
    (SELECT array_agg({cell}.gate_mark(g.scope, g.name) ORDER BY g.scope, g.name) FROM {cell}.payment_closed_gates g),
    (SELECT CASE WHEN EXISTS (SELECT FROM {cell}.payment_cells)
        THEN string_agg((b.mine AND NOT {cell}.bucket_is_leaving(b.version, b.leaving))::integer::text, '' ORDER BY b.bucket)::bit(1024) END
     FROM {cell}.payment_buckets b),
    CASE WHEN EXISTS (
      SELECT FROM {cell}.payment_cell_checks k
      WHERE k.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
        AND k.timeline = {cell}.server_timeline() AND k.server_started_at = pg_postmaster_start_time()
        AND k.went_back = {cell}.server_went_back())
      THEN pg_postmaster_start_time() END
  FROM {cell}.payment_outbox_settings s
  ON CONFLICT ON CONSTRAINT payment_outbox_rules_pk DO UPDATE SET
    allow_second_key = excluded.allow_second_key,
    rail_key_namespace = excluded.rail_key_namespace,
    payload_bytes_max = excluded.payload_bytes_max,
    headers_bytes_max = excluded.headers_bytes_max,
    payload_depth_max = excluded.payload_depth_max,
    refuse_card_numbers = excluded.refuse_card_numbers,
    rail_types = excluded.rail_types,
    forbidden = excluded.forbidden,
    digits = excluded.digits,
    required = excluded.required,
    closed_gates = excluded.closed_gates,
    own_buckets = excluded.own_buckets,
    confirmed_start = excluded.confirmed_start;
  RETURN NULL;
END
$$;
-- end of refresh_outbox_rules

-- function refuse_foreign_participant
CREATE OR REPLACE FUNCTION {cell}.refuse_foreign_participant() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  of_new CONSTANT integer := {cell}.cell_bucket(NEW.participant_id);
  mine   boolean;
BEGIN
  SELECT b.mine AND NOT {cell}.bucket_is_leaving(b.version, b.leaving) INTO STRICT mine FROM {cell}.payment_buckets b
  WHERE b.bucket = of_new
  FOR SHARE;
  IF NOT mine THEN
    RAISE EXCEPTION USING ERRCODE = '40001',
      MESSAGE = 'the bucket of the participant was given to another cell meanwhile, or is being moved to one', HINT = 'Retry the transaction.';
  END IF;
  RETURN NULL;
END
$$;
-- end of refuse_foreign_participant

-- function require_api_payment
CREATE OR REPLACE FUNCTION {cell}.require_api_payment(token_sha256 bytea, certificate bytea, verb text, outbox_id uuid)
RETURNS {cell}.payment_api_tokens
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  token {cell}.payment_api_tokens := {cell}.require_api_token(token_sha256, certificate, verb, '');
BEGIN
  IF NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_keys k
    WHERE k.outbox_id = require_api_payment.outbox_id AND k.participant_id = ANY (token.participants))
  THEN
    IF EXISTS (SELECT FROM {cell}.carried_payments(token.participants, ARRAY[require_api_payment.outbox_id])) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'the instruction was enqueued in another cell, before its participant was moved to this one',
        HINT = 'Its payment stayed there. Nothing was changed: make this call in the cell that has it.';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such instruction',
      HINT = 'Check the id, and that the token is for its participant.';
  END IF;
  RETURN token;
END
$$;
-- end of require_api_payment

-- function require_gate
CREATE OR REPLACE FUNCTION {cell}.require_gate(scope text, name text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF scope = 'cell' AND name = '*' THEN
    RETURN;
  ELSIF scope = 'rail' THEN
    IF NOT EXISTS (SELECT FROM {cell}.payment_rails r WHERE r.rail_type = require_gate.name
      AND r.profile_version IS NOT NULL) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
        coalesce(quote_literal(left(name, 64)), 'NULL')),
        HINT = 'Use a rail_type of payment_rails; the whole cell is scope cell, name *.';
    END IF;
  ELSIF scope = 'participant' THEN
    IF NOT EXISTS (SELECT FROM {cell}.participant_outbox_sequences s WHERE s.participant_id = require_gate.name)
      AND NOT EXISTS (SELECT FROM {cell}.payment_packed_participants p WHERE p.participant_id = require_gate.name) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'this participant has never enqueued anything here',
        HINT = 'Check the participant_id.';
    END IF;
  ELSE
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'there is no such gate',
      HINT = 'Scope and name are: rail and a rail_type, participant and a participant_id, or cell and *.';
  END IF;
END
$$;
-- end of require_gate

-- function require_movable
CREATE OR REPLACE FUNCTION {cell}.require_movable(bucket integer) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  stop record;
BEGIN
  SELECT w.participant_id, w.why INTO stop
  FROM (
    SELECT h.participant_id, 'it is paused here, and would not be there: resume it first' AS why
    FROM {cell}.payment_paused_participants h
    UNION ALL
    SELECT g.name, 'its gate is closed here, and would not be there: open it first'
    FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant'
    UNION ALL
    SELECT o.participant_id, format('rail %s keeps the order of its payments, and one of them is not resolved',
      o.rail_type)
    FROM (
      SELECT p.participant_id, p.rail_type, NULL::uuid AS letter FROM {cell}.payment_outbox_pending p
      UNION ALL
      SELECT k.participant_id, d.rail_type, d.outbox_id
      FROM {cell}.payment_dead_letters d
      JOIN {cell}.payment_outbox_keys k ON k.outbox_id = d.outbox_id
      WHERE d.status NOT IN ('manual_replay', 'resolved')) o
    JOIN {cell}.payment_rails r ON r.rail_type = o.rail_type
    JOIN {cell}.payment_rail_profiles f ON f.rail_type = r.rail_type AND f.version = r.profile_version
    LEFT JOIN LATERAL (
      SELECT a.state::text AS state, a.attempt_no FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = o.letter AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC LIMIT 1) last ON true
    WHERE coalesce(f.profile -> 'order_participants' ->> o.participant_id, f.profile ->> 'order') = 'STRICT'
      -- A letter that holds up nothing in its line (advance_order_lines) doesn't here.
      AND (o.letter IS NULL OR NOT (coalesce(f.profile ->> 'order_on_bad_end', 'BLOCK') = 'SKIP'
        AND coalesce(last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED'), false)) AND NOT EXISTS (
        SELECT FROM {cell}.payment_operator_log l
        WHERE l.outbox_id = o.letter AND l.act = 'SKIP_IN_ORDER'
          AND (l.detail ->> 'attempt_no')::integer = coalesce(last.attempt_no, 0)))
    UNION ALL
    SELECT k.participant_id, 'one of its payments is claimed, and its rail may keep the order'
    FROM {cell}.payment_outbox_claims c
    CROSS JOIN LATERAL unnest(c.outbox_ids) AS m(outbox_id)
    JOIN {cell}.payment_outbox_keys k ON k.outbox_id = m.outbox_id
    WHERE EXISTS (
      SELECT FROM {cell}.payment_rails r
      JOIN {cell}.payment_rail_profiles f ON f.rail_type = r.rail_type AND f.version = r.profile_version
      WHERE coalesce(f.profile -> 'order_participants' ->> k.participant_id, f.profile ->> 'order') = 'STRICT')) w
  WHERE {cell}.cell_bucket(w.participant_id) = $1
  ORDER BY w.participant_id
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('participant %s of bucket %s can''t be moved now: %s', quote_literal(stop.participant_id), $1,
        stop.why),
      HINT = 'Repeat railhead cell move once that is so, or end the move: railhead cell move --cancel.';
  END IF;
END
$$;
-- end of require_movable

-- function settle_buckets
CREATE OR REPLACE FUNCTION {cell}.settle_buckets(buckets integer[], versions integer[], cell text, reason text,
  servers jsonb) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  taker {cell}.payment_cells;
  wrong integer;
  done  integer;
BEGIN
  PERFORM {cell}.require_reason(settle_buckets.reason);
  PERFORM {cell}.require_durable_map();
  IF (cardinality(buckets) > 0 AND cardinality(buckets) = cardinality(versions) AND array_position(versions, NULL) IS NULL
    AND 0 <= ALL (buckets) AND 1023 >= ALL (buckets)
    AND (SELECT count(DISTINCT g) FROM unnest(buckets) AS g) = cardinality(buckets)) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'buckets are different numbers of 0 to 1023, and each has a version';
  END IF;
  IF settle_buckets.servers IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'servers must not be null';
  END IF;
  PERFORM {cell}.require_cell_servers(settle_buckets.servers);
  SELECT c.* INTO taker FROM {cell}.payment_cells c WHERE c.name = settle_buckets.cell COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no cell %s', coalesce(quote_literal(left(settle_buckets.cell, 64)), 'NULL')),
      HINT = 'See railhead cell list.';
  END IF;
  IF taker.here THEN
    PERFORM {cell}.require_settled_server('taking buckets');
    PERFORM {cell}.require_confirmed_map('taking buckets');
  END IF;
  PERFORM FROM {cell}.payment_buckets b WHERE b.bucket = ANY (buckets) ORDER BY b.bucket FOR UPDATE;
  SELECT min(b.bucket) INTO wrong
  FROM unnest(buckets, versions) AS g(bucket, version)
  JOIN {cell}.payment_buckets b ON b.bucket = g.bucket
  WHERE g.version < b.version + 2 AND NOT (g.version = b.version AND EXISTS (
    SELECT FROM {cell}.payment_cell_changes k
    WHERE k.bucket = g.bucket AND k.version = g.version AND k.cell_id = taker.cell_id AND k.settles));
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell knows a newer version of bucket %s than those that were read', wrong),
      HINT = 'Read all maps again: railhead cell sync.';
  END IF;
  -- A move may have been completed since the maps were read: the keys are here, and go with the bucket.
  SELECT min(b.bucket) INTO wrong FROM {cell}.payment_buckets b
  WHERE b.bucket = ANY (buckets) AND b.mine AND NOT taker.here;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell takes bucket %s, and no other map contradicts that', wrong),
      HINT = 'See railhead cell status. railhead cell move takes it to another cell.';
  END IF;
  INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, settles, reason)
  SELECT g.bucket, g.version, taker.name, taker.cell_id, true, settle_buckets.reason
  FROM unnest(buckets, versions) AS g(bucket, version)
  ON CONFLICT ON CONSTRAINT payment_cell_changes_pk DO NOTHING;
  GET DIAGNOSTICS done = ROW_COUNT;
  UPDATE {cell}.payment_buckets b
  SET cell = taker.name, version = g.version, mine = taker.here, contradicted = false
  FROM unnest(buckets, versions) AS g(bucket, version)
  WHERE b.bucket = g.bucket AND b.version < g.version;
  IF done > 0 THEN
    PERFORM {cell}.log_operator_act('SETTLE_BUCKETS', taker.name, NULL, settle_buckets.reason,
      jsonb_build_object('buckets', to_jsonb(buckets), 'versions', to_jsonb(versions)));
  END IF;
  RETURN done;
END
$$;
-- end of settle_buckets

-- function store_arrivals
CREATE OR REPLACE FUNCTION {cell}.store_arrivals(bucket integer, version integer, digest text, participants jsonb,
  keys jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM {cell}.require_durable_map();
  PERFORM FROM {cell}.payment_arrivals a
  WHERE a.bucket = $1 AND a.version = $2 AND a.digest = $3 COLLATE "C" AND a.complete_at IS NULL
  FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell expects other participants of bucket %s, or has taken them', $1),
      HINT = 'Repeat railhead cell move.';
  END IF;
  INSERT INTO {cell}.payment_arrived_participants (bucket, version, participant_id, next_sequence_id)
  SELECT $1, $2, p.participant_id, p.next_sequence_id
  FROM jsonb_to_recordset($4) AS p(participant_id text, next_sequence_id bigint)
  ON CONFLICT DO NOTHING;
  INSERT INTO {cell}.payment_arrived_keys (bucket, version, outbox_id, sequence_id, created_at, participant_id,
    instruction_id, idempotency_key, fingerprint)
  SELECT $1, $2, k.outbox_id, k.sequence_id, k.created_at, k.participant_id, k.instruction_id, k.idempotency_key,
    decode(k.fingerprint, 'hex')
  FROM jsonb_to_recordset($5) AS k(outbox_id uuid, sequence_id bigint, created_at timestamptz, participant_id text,
    instruction_id text, idempotency_key text, fingerprint text)
  ON CONFLICT DO NOTHING;
END
$$;
-- end of store_arrivals

-- function thaw_bucket
CREATE OR REPLACE FUNCTION {cell}.thaw_bucket(bucket integer, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  held {cell}.payment_buckets;
  taker text;
BEGIN
  PERFORM {cell}.require_reason(thaw_bucket.reason);
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_confirmed_map('ending a move');
  SELECT b.* INTO held FROM {cell}.payment_buckets b WHERE b.bucket = thaw_bucket.bucket FOR UPDATE;
  IF NOT FOUND OR NOT held.mine OR NOT {cell}.bucket_is_leaving(held.version, held.leaving) THEN
    RETURN false;
  END IF;
  UPDATE {cell}.payment_buckets b SET leaving = NULL WHERE b.bucket = held.bucket;
  INSERT INTO {cell}.participant_outbox_sequences (participant_id, next_sequence_id, moved_in)
  SELECT p.participant_id, p.next_sequence_id, p.moved_in FROM {cell}.payment_packed_participants p
  WHERE p.bucket = held.bucket AND p.version = held.leaving
  ORDER BY p.participant_id;
  DELETE FROM {cell}.payment_packed_participants p WHERE p.bucket = held.bucket AND p.version = held.leaving;
  DELETE FROM {cell}.payment_bucket_moves m WHERE m.bucket = held.bucket AND m.version = held.leaving
  RETURNING m.cell INTO STRICT taker;
  PERFORM {cell}.log_operator_act('THAW_BUCKET', taker, NULL, thaw_bucket.reason,
    jsonb_build_object('bucket', held.bucket, 'version', held.leaving));
  RETURN true;
END
$$;
-- end of thaw_bucket

-- function untaken_buckets
CREATE OR REPLACE FUNCTION {cell}.untaken_buckets() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT count(*)::integer
  FROM {cell}.payment_buckets b
  JOIN {cell}.payment_cells h ON h.here
  WHERE b.contradicted OR b.cell = h.name AND (NOT b.mine OR {cell}.bucket_is_leaving(b.version, b.leaving))
$$;
-- end of untaken_buckets

CREATE TRIGGER payment_buckets_keep_out
  BEFORE UPDATE ON {cell}.payment_buckets
  FOR EACH ROW WHEN (NEW.mine AND (NOT OLD.mine OR NEW.version <> OLD.version))
  EXECUTE FUNCTION {cell}.keep_out_bucket();
ALTER TABLE {cell}.payment_buckets ENABLE ALWAYS TRIGGER payment_buckets_keep_out;
CREATE TRIGGER payment_buckets_put_in
  AFTER UPDATE ON {cell}.payment_buckets
  FOR EACH ROW WHEN (NEW.mine AND (NOT OLD.mine OR NEW.version <> OLD.version))
  EXECUTE FUNCTION {cell}.put_in_participants();
ALTER TABLE {cell}.payment_buckets ENABLE ALWAYS TRIGGER payment_buckets_put_in;
CREATE TRIGGER payment_arrived_keys_kept
  BEFORE UPDATE OR DELETE ON {cell}.payment_arrived_keys
  FOR EACH ROW EXECUTE FUNCTION {cell}.keep_arrived_key();
ALTER TABLE {cell}.payment_arrived_keys ENABLE ALWAYS TRIGGER payment_arrived_keys_kept;

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 28, serves 13'
$$;
-- end of schema_version
