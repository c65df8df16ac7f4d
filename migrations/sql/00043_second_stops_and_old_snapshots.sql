-- Migration 43, second stops and old snapshots. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function close_enqueue
CREATE OR REPLACE FUNCTION {cell}.close_enqueue(scope text, name text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  -- This limit keeps the marks of all gates, and so the row of payment_outbox_rules, within one
  -- page.
  participants_max CONSTANT integer := 100;
  was_open boolean;
BEGIN
  PERFORM {cell}.require_reason(close_enqueue.reason);
  PERFORM {cell}.require_end(close_enqueue.until);
  PERFORM {cell}.require_gate(close_enqueue.scope, close_enqueue.name);
  -- This lock serializes calls: whether the gate is closed, and how many are, does not change until
  -- the commit.
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE;
  INSERT INTO {cell}.payment_closed_gates (scope, name, closed_by, close_reason, closed_until)
  VALUES (close_enqueue.scope, close_enqueue.name, session_user, left(close_enqueue.reason, 500), close_enqueue.until)
  ON CONFLICT ON CONSTRAINT payment_closed_gates_pk DO NOTHING;
  was_open := FOUND;
  IF NOT was_open THEN
    UPDATE {cell}.payment_closed_gates g
    SET closed_until = CASE WHEN g.closed_until < close_enqueue.until OR close_enqueue.until IS NULL
      THEN close_enqueue.until ELSE g.closed_until END,
      close_reason = {cell}.reason_of_both(g.close_reason, g.closed_by, close_enqueue.reason)
    WHERE g.scope = close_enqueue.scope AND g.name = close_enqueue.name;
  END IF;
  IF (SELECT count(*) FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant') > participants_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('enqueue is closed for %s participants already',
      participants_max),
      HINT = 'Close the rail or the whole cell, or open one of them first.';
  END IF;
  PERFORM {cell}.log_operator_act('CLOSE_ENQUEUE', close_enqueue.name, NULL, close_enqueue.reason,
    jsonb_strip_nulls(jsonb_build_object('scope', close_enqueue.scope, 'until', close_enqueue.until)));
  RETURN was_open;
END
$$;
-- end of close_enqueue

-- function discard_events
CREATE OR REPLACE FUNCTION {cell}.discard_events(endpoint_id text, reason text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  given_up integer;
  named    jsonb;
BEGIN
  PERFORM {cell}.require_reason($2);
  -- The deliveries that a worker has in progress belong to the earlier epoch, and are not noted.
  UPDATE {cell}.payment_event_endpoints e SET epoch = e.epoch + 1 WHERE e.endpoint_id = $1 COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such endpoint',
      HINT = 'See them all: railhead events endpoints.';
  END IF;
  WITH gone AS (
    DELETE FROM {cell}.payment_event_retries r WHERE r.endpoint_id = $1 COLLATE "C" AND NOT isfinite(r.next_at)
    RETURNING r.created_at, r.outbox_id, r.attempt_no
  ),
  numbered AS (
    SELECT g.outbox_id, g.attempt_no, row_number() OVER (ORDER BY g.created_at, g.outbox_id, g.attempt_no) AS no
    FROM gone g
  )
  SELECT count(*)::integer, coalesce(jsonb_agg(jsonb_build_object('outbox_id', n.outbox_id, 'attempt_no', n.attempt_no)
    ORDER BY n.no) FILTER (WHERE n.no <= 100), '[]')
  INTO given_up, named
  FROM numbered n;
  PERFORM {cell}.log_operator_act('DISCARD_EVENTS', $1, NULL, $2, jsonb_build_object('events', given_up,
    'first', named));
  RETURN given_up;
END
$$;
-- end of discard_events

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
  -- Above READ COMMITTED the rules below are those of the snapshot.
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM {cell}.require_current_rules();
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
  apart     boolean;   -- whether this cell does not take an item's participant
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
  -- Above READ COMMITTED the rules below are those of the snapshot.
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    PERFORM {cell}.require_current_rules();
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

  SELECT array_agg(c.print), array_agg(c.fault), array_agg(c.fault IS NULL OR c.fault ->> 'code' = 'RH014'),
    bool_or(c.fault ->> 'code' = 'RH009')
  INTO prints, faults, wants, apart
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

  -- In a cell that knows no other one, map_is_confirmed sees what is committed while the check is under way
  -- (server_is_settled): an earlier item of the participant may be refused, and a later one not.
  IF apart THEN
    SELECT array_agg(CASE WHEN a.wants THEN coalesce(f.fault, a.fault) ELSE a.fault END ORDER BY a.item),
      array_agg(a.wants AND f.fault IS NULL ORDER BY a.item)
    INTO faults, wants
    FROM unnest($2 COLLATE "C", faults, wants) WITH ORDINALITY AS a(participant_id, fault, wants, item)
    LEFT JOIN (
      SELECT DISTINCT ON (b.participant_id) b.participant_id, b.fault
      FROM unnest($2 COLLATE "C", faults) WITH ORDINALITY AS b(participant_id, fault, item)
      WHERE b.fault ->> 'code' = 'RH009'
      ORDER BY b.participant_id, b.item) f ON f.participant_id = a.participant_id;
  END IF;

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
          a.send_once, a.print, l.first,
          -- Whether another cell has answered this call. A function, so that a call without participants who came from
          -- there locks none of its tables.
          CASE WHEN a.participant_id = ANY (comers) THEN EXISTS (
              SELECT FROM {cell}.carried_call(a.instruction_id, a.participant_id, a.idempotency_key, a.print,
                settings.allow_second_key))
            ELSE false END AS carried
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
      ),
      -- The first item of each key in the batch, and of each instruction. Whether an item whose key the item of
      -- another participant has before it is new depends on that one, which may be refused, or repeat a call of another
      -- cell: it is decided behind these, and so are the later items of its participant, which must not get an earlier
      -- number.
      numbered AS MATERIALIZED (
        SELECT c.*, {cell}.uuidv7_from(floor(extract(epoch FROM c.created_at) * 1000000)::bigint) AS outbox_id
        FROM (
          SELECT c.*, clock_timestamp() AS created_at, c.first + c.nth - 1 AS sequence_id
          FROM (
            SELECT c.*, bool_or(c.first_of_key <> c.participant_id) OVER by_participant AS behind,
              count(*) FILTER (WHERE c.nth_of_key = 1 AND c.nth_of_instruction = 1 AND NOT c.carried)
                OVER by_participant AS nth
            FROM (
              SELECT c.*, row_number() OVER by_key AS nth_of_key, first_value(c.participant_id) OVER by_key AS first_of_key,
                row_number() OVER (
                  PARTITION BY c.instruction_id, c.participant_id, c.carried, CASE WHEN settings.allow_second_key
                    THEN c.idempotency_key END
                  ORDER BY c.item) AS nth_of_instruction
              FROM candidate c
              WINDOW by_key AS (PARTITION BY c.instruction_id, c.idempotency_key ORDER BY c.item
                ROWS UNBOUNDED PRECEDING)) c
            WINDOW by_participant AS (PARTITION BY c.participant_id ORDER BY c.item ROWS UNBOUNDED PRECEDING)) c
          WHERE c.nth_of_key = 1 AND c.nth_of_instruction = 1 AND NOT c.behind AND NOT c.carried) c
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

  -- Items whose key the item of another participant has before them, with the later ones of their participants, and, of
  -- participants that were moved to this cell, calls that the other one has answered. All other items are answered from
  -- what is known then, which may be what these have stored. An item with a fault must not be decided again: by now it may
  -- be valid, and later ones of its participant are stored.
  undecided := ARRAY(
    SELECT a.item::integer
    FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", faults) WITH ORDINALITY
      AS a(instruction_id, participant_id, idempotency_key, fault, item)
    LEFT JOIN unnest(lockers) AS l(participant_id) ON l.participant_id = a.participant_id
    LEFT JOIN unnest(fresh) AS f(item) ON f.item = a.item
    LEFT JOIN LATERAL (
      SELECT k.outbox_id
      FROM (
        SELECT k.outbox_id, k.idempotency_key, k.participant_id FROM {cell}.payment_outbox_keys k
        WHERE k.instruction_id = a.instruction_id OFFSET 0) k
      WHERE k.idempotency_key = a.idempotency_key OR k.participant_id = a.participant_id
        AND NOT settings.allow_second_key) k ON true
    LEFT JOIN unnest(fresh, fresh_ids) AS by(item, outbox_id) ON by.outbox_id = k.outbox_id
    WHERE a.fault IS NULL AND l.participant_id IS NOT NULL AND f.item IS NULL
    GROUP BY a.item
    HAVING count(k.outbox_id) FILTER (WHERE by.item IS NULL OR by.item < a.item) = 0
    ORDER BY a.item);

  -- As in enqueue_payment_outbox, an answer about rows of others waits until they are on the
  -- standby too.
  IF fresh IS NULL THEN
    PERFORM pg_logical_emit_message(true, 'railhead', 'replayed');
  END IF;
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
    IF NOT replayed THEN
      fresh := fresh || item;
      fresh_ids := fresh_ids || outbox_id;
      fresh_nos := fresh_nos || sequence_id;
      fresh_ats := fresh_ats || created_at;
    END IF;
  END LOOP;
  RETURN QUERY
  SELECT a.item::integer,
    CASE WHEN v.code IS NULL THEN coalesce(f.outbox_id, k.outbox_id, c.outbox_id) END,
    CASE WHEN v.code IS NULL THEN coalesce(f.sequence_id, k.sequence_id, c.sequence_id) END,
    CASE WHEN v.code IS NULL THEN coalesce(f.created_at, k.created_at, c.created_at) END,
    CASE WHEN f.item IS NOT NULL THEN 'PENDING' WHEN v.code IS NOT NULL THEN NULL
      WHEN k.outbox_id IS NULL THEN 'ELSEWHERE' ELSE {cell}.payment_outbox_state(k.outbox_id) END,
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
    CASE WHEN v.code IS NULL AND k.outbox_id IS NOT NULL
      THEN {cell}.payment_outbox_differs(k.outbox_id, a.not_before, a.expires_at, CASE WHEN $8 IS NULL THEN 1
        ELSE a.priority END, coalesce(a.send_once, false)) END,
    CASE v.code WHEN 'RH001' THEN 'idempotency_key' WHEN 'RH007' THEN 'idempotency_key' WHEN 'RH015'
      THEN 'participant_id'
      WHEN a.fault ->> 'code' THEN a.fault ->> 'field' END,
    CASE v.code WHEN 'RH001' THEN 'SAME_CONTENT' WHEN 'RH007' THEN 'ONE_KEY' WHEN 'RH015' THEN 'BUSY'
      WHEN a.fault ->> 'code' THEN a.fault ->> 'rule' END,
    CASE v.code
      WHEN c.code THEN c.detail
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
    LIMIT 1) same_key ON true
  -- An item that is not stored is not told that a later one of the call has used its key.
  LEFT JOIN unnest(fresh, fresh_ids) AS key_of(item, outbox_id) ON key_of.outbox_id = same_key.outbox_id
  LEFT JOIN LATERAL (SELECT same_key.* WHERE key_of.item IS NULL OR key_of.item < a.item) k ON true
  LEFT JOIN LATERAL (
    SELECT o.outbox_id
    FROM (
      SELECT o.outbox_id, o.participant_id FROM {cell}.payment_outbox_keys o
      WHERE o.instruction_id = a.instruction_id OFFSET 0) o
    WHERE f.item IS NULL AND k.outbox_id IS NULL AND o.participant_id = a.participant_id
      AND NOT settings.allow_second_key
    LIMIT 1) other_key ON true
  LEFT JOIN unnest(fresh, fresh_ids) AS other_of(item, outbox_id) ON other_of.outbox_id = other_key.outbox_id
  LEFT JOIN LATERAL (SELECT other_key.* WHERE other_of.item IS NULL OR other_of.item < a.item) o ON true
  -- What a refused call repeats of another cell. It names s, so that it is called for moved participants alone.
  LEFT JOIN LATERAL (
    SELECT c.code, c.detail, c.outbox_id, c.sequence_id, c.created_at
    FROM (
      SELECT s.participant_id FROM {cell}.participant_outbox_sequences s
      WHERE a.fault IS NOT NULL AND k.outbox_id IS NULL
        AND (l.participant_id IS NOT NULL OR a.fault ->> 'code' <> 'RH014')
        AND s.participant_id = a.participant_id AND s.moved_in
      LIMIT 1) s
    CROSS JOIN LATERAL {cell}.carried_call(a.instruction_id, s.participant_id, a.idempotency_key, a.print,
      settings.allow_second_key) c
    LIMIT 1) c ON true
  CROSS JOIN LATERAL (
    SELECT CASE
      WHEN f.item IS NOT NULL THEN NULL
      WHEN k.outbox_id IS NOT NULL AND k.fingerprint IS DISTINCT FROM a.print THEN 'RH001'
      WHEN k.outbox_id IS NOT NULL THEN NULL
      WHEN c.outbox_id IS NOT NULL THEN c.code
      WHEN a.fault ->> 'code' <> 'RH014' THEN a.fault ->> 'code'
      WHEN l.participant_id IS NULL THEN 'RH015'
      WHEN o.outbox_id IS NOT NULL THEN 'RH007'
      ELSE a.fault ->> 'code'
    END AS code) v
  LEFT JOIN unnest(undecided) AS u(item) ON u.item = a.item
  WHERE u.item IS NULL
  ORDER BY a.item;
  IF NOT waits THEN
    PERFORM set_config('lock_timeout', patience, true);
  END IF;
END
$$;
-- end of enqueue_payment_outbox_arrays

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
  IF pg_current_xact_id_if_assigned() IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the transaction has written something: it could still take back the row of the operator log',
      HINT = 'Commit freeze_bucket first, then call pack_bucket in a transaction of its own.';
  END IF;
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

-- function pause_participant
CREATE OR REPLACE FUNCTION {cell}.pause_participant(participant_id text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
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
  LOOP
    INSERT INTO {cell}.payment_paused_participants (participant_id, paused_by, pause_reason, paused_until)
    VALUES (pause_participant.participant_id, session_user, left(pause_participant.reason, 500), pause_participant.until)
    ON CONFLICT DO NOTHING;
    paused := FOUND;
    EXIT WHEN paused;
    -- Where another session ends that pause, the insert does not wait for it. This does, and finds no row then.
    UPDATE {cell}.payment_paused_participants p
    SET paused_until = CASE WHEN pause_participant.until IS NULL OR p.paused_until IS NULL THEN NULL
      ELSE greatest(p.paused_until, pause_participant.until) END,
      pause_reason = {cell}.reason_of_both(p.pause_reason, p.paused_by, pause_participant.reason)
    WHERE p.participant_id = pause_participant.participant_id;
    EXIT WHEN FOUND;
  END LOOP;
  PERFORM {cell}.log_operator_act('PAUSE_PARTICIPANT', pause_participant.participant_id, NULL, pause_participant.reason,
    jsonb_strip_nulls(jsonb_build_object('until', pause_participant.until)));
  RETURN paused;
END
$$;
-- end of pause_participant

-- function pause_rail
CREATE OR REPLACE FUNCTION {cell}.pause_rail(rail_type text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  was boolean;
BEGIN
  PERFORM {cell}.require_reason(pause_rail.reason);
  PERFORM {cell}.require_end(pause_rail.until);
  SELECT r.paused INTO was FROM {cell}.payment_rails r WHERE r.rail_type = pause_rail.rail_type FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
      quote_literal(left(pause_rail.rail_type, 64))),
      HINT = 'Use a rail_type of payment_rails, or * for everything.';
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = true, paused_by = CASE WHEN was THEN r.paused_by ELSE session_user END,
    paused_at = CASE WHEN was THEN r.paused_at ELSE clock_timestamp() END,
    pause_reason = CASE WHEN was THEN {cell}.reason_of_both(r.pause_reason, r.paused_by, pause_rail.reason)
      ELSE left(pause_rail.reason, 500) END,
    paused_until = CASE
      WHEN NOT was OR r.paused_until < pause_rail.until OR pause_rail.until IS NULL THEN pause_rail.until
      ELSE r.paused_until END,
    updated_at = clock_timestamp()
  WHERE r.rail_type = pause_rail.rail_type;
  PERFORM {cell}.log_operator_act('PAUSE_RAIL', pause_rail.rail_type, NULL, pause_rail.reason,
    jsonb_strip_nulls(jsonb_build_object('until', pause_rail.until)));
  RETURN NOT was;
END
$$;
-- end of pause_rail

-- function reason_of_both
CREATE OR REPLACE FUNCTION {cell}.reason_of_both(standing text, standing_by text, reason text) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  length_max CONSTANT integer := 1200;
  said       CONSTANT text COLLATE "C" := left($3, 500);
  added      CONSTANT text COLLATE "C" := format('; and %s: %s', session_user, said);
BEGIN
  IF strpos($1 COLLATE "C" || '; and ', added || '; and ') > 0
    OR $2 COLLATE "C" = session_user AND starts_with($1 COLLATE "C" || '; and ', said || '; and ') THEN
    RETURN $1;
  ELSIF length($1) + length(added) > length_max THEN
    RETURN left($1, length_max - length(added) - 4) || ' ...' || added;
  END IF;
  RETURN $1 || added;
END
$$;
-- end of reason_of_both

-- function require_current_rules
CREATE OR REPLACE FUNCTION {cell}.require_current_rules() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR SHARE SKIP LOCKED;
  RAISE EXCEPTION USING ERRCODE = 'P0001', MESSAGE = 'the lock is released';
EXCEPTION
  WHEN serialization_failure THEN
    RAISE EXCEPTION USING ERRCODE = '40001',
      MESSAGE = 'what enqueue goes by has changed since the snapshot of this transaction',
      HINT = 'Retry the transaction.';
  WHEN raise_exception THEN
    NULL;
END
$$;
-- end of require_current_rules

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 43, serves 13'
$$;
-- end of schema_version
