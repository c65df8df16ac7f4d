-- Migration 58, keys of other cells. Binaries that need migration 13 or a newer one work on a cell that has it.

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
        MESSAGE = CASE
          WHEN {cell}.timeline_accepted_at(accept_timeline.system_identifier, accept_timeline.timeline) IS NOT NULL
          THEN 'the server was started, and no relayer has confirmed since that nothing is missing: what it may have '
            'forgotten is not known yet'
          WHEN EXISTS (
            SELECT FROM {cell}.payment_accepted_timelines t
            WHERE t.system_identifier = accept_timeline.system_identifier AND t.timeline = accept_timeline.timeline)
          THEN 'rows were accepted in other tables than these: a dump was loaded, or the database was copied, and no '
            'relayer has compared since: what may be missing is not known yet'
          ELSE 'these rows were never accepted on this server and timeline, and no relayer has compared since: what may '
            'be missing is not known yet' END,
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
    FROM (
      SELECT w.outbox_id, w.participant_id, w.created_at FROM {cell}.payment_outbox_pending w
      UNION ALL
      SELECT r.outbox_id, r.participant_id, r.created_at
      FROM {cell}.payment_outbox_claims c
      CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
      CROSS JOIN LATERAL (
        SELECT t.outbox_id, t.participant_id, t.created_at FROM {cell}.payment_outbox_keys t
        WHERE t.outbox_id = m.outbox_id LIMIT 1) r
      WHERE (SELECT true FROM {cell}.payment_outbox_attempts z WHERE z.outbox_id = m.outbox_id AND z.attempt_no > m.attempt_no AND z.state <> 'LATE_OUTCOME' LIMIT 1) IS NULL) p
    JOIN {cell}.payment_buckets b ON b.bucket = {cell}.cell_bucket(p.participant_id)
    WHERE (b.contradicted OR b.cell IS DISTINCT FROM (SELECT c.name FROM {cell}.payment_cells c WHERE c.here)
        -- The bucket was another cell's, and is this one's again.
        OR EXISTS (
          SELECT FROM {cell}.payment_cell_changes o
          WHERE o.bucket = b.bucket AND o.cell_id <> (SELECT c.cell_id FROM {cell}.payment_cells c WHERE c.here)
            AND (NOT b.mine OR p.created_at <= o.stored_at)))
      AND NOT EXISTS (
        -- Its key went along with the bucket, and no other cell has taken that without keys since.
        SELECT FROM {cell}.payment_packed_participants m
        JOIN {cell}.payment_bucket_moves v ON v.bucket = m.bucket AND v.version = m.version
        JOIN {cell}.payment_cell_changes c ON c.bucket = m.bucket AND c.version = m.version AND c.digest = v.digest
        JOIN {cell}.payment_outbox_keys k ON k.outbox_id = p.outbox_id AND k.sequence_id < m.next_sequence_id
        WHERE m.participant_id = p.participant_id AND NOT EXISTS (
          SELECT FROM {cell}.payment_cell_changes s
          WHERE s.bucket = m.bucket AND s.version >= m.version AND s.settles
            AND s.cell_id <> (SELECT c.cell_id FROM {cell}.payment_cells c WHERE c.here)))
      AND NOT EXISTS (SELECT FROM {cell}.payment_paused_participants h WHERE h.participant_id = p.participant_id
        AND h.paused_until IS NULL);
    IF foreigners.n > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('%s payments that are pending or claimed are of participants of other cells, or of ones that another cell had meanwhile, such as %s: the same keys may be enqueued there',
          foreigners.n, quote_literal(foreigners.first)),
        HINT = 'Pause these participants here without an end (railhead participant pause), repeat this, compare each '
          'payment with the other cell, and cancel it here if that has enqueued it, too: the cancellation does not say '
          'that it was not paid, which only the other cell knows. One that it answers with '
          'ELSEWHERE and the outbox_id of this cell is only here; with another outbox_id it is in a third cell, too.';
    END IF;
  END IF;
  -- A row that says that the cell was made here may be there, and count no longer.
  INSERT INTO {cell}.payment_accepted_timelines (system_identifier, timeline, database_oid, table_oid, reason)
  SELECT accept_timeline.system_identifier, accept_timeline.timeline, {cell}.database_oid(),
    '{cell}.payment_accepted_timelines'::regclass, accept_timeline.reason
  WHERE {cell}.timeline_accepted_at(accept_timeline.system_identifier, accept_timeline.timeline) IS NULL
  ON CONFLICT DO NOTHING;
  UPDATE {cell}.payment_outbox_suspensions s
  SET accepted_at = clock_timestamp(), accepted_by = session_user, reason = accept_timeline.reason
  WHERE s.suspension_id = suspended.suspension_id;
  PERFORM {cell}.log_operator_act('ACCEPT_TIMELINE',
    format('%s/%s', accept_timeline.system_identifier, accept_timeline.timeline), NULL, accept_timeline.reason,
    jsonb_strip_nulls(jsonb_build_object('suspension_id', suspended.suspension_id)));
  RETURN NEXT;
END
$$;
-- end of accept_timeline

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
      AND (r.confirmed_start = pg_postmaster_start_time() AND r.confirmed_table = r.tableoid
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
      SELECT c.outbox_id, c.sequence_id, c.created_at, c.state INTO outbox_id, sequence_id, created_at, state
      FROM {cell}.known_call(seen.outbox_id) c;
      replayed := true;
      IF state IS DISTINCT FROM 'ELSEWHERE' THEN
        differs := {cell}.payment_outbox_differs(seen.outbox_id, not_before, expires_at, priority,
          coalesce(send_once, false));
      END IF;
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
          AND (r.confirmed_start = pg_postmaster_start_time() AND r.confirmed_table = r.tableoid
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
    CASE WHEN v.code IS NULL THEN coalesce(f.outbox_id, known.outbox_id, c.outbox_id) END,
    CASE WHEN v.code IS NULL THEN coalesce(f.sequence_id, known.sequence_id, c.sequence_id) END,
    CASE WHEN v.code IS NULL THEN coalesce(f.created_at, known.created_at, c.created_at) END,
    CASE WHEN f.item IS NOT NULL THEN 'PENDING' WHEN v.code IS NOT NULL THEN NULL
      WHEN k.outbox_id IS NULL THEN 'ELSEWHERE' ELSE known.state END,
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
    CASE WHEN known.outbox_id IS NOT NULL AND known.state IS DISTINCT FROM 'ELSEWHERE'
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
  LEFT JOIN LATERAL (
    SELECT n.outbox_id, n.sequence_id, n.created_at, n.state FROM {cell}.known_call(k.outbox_id) n
    WHERE v.code IS NULL AND k.outbox_id IS NOT NULL
    LIMIT 1) known ON true
  LEFT JOIN unnest(undecided) AS u(item) ON u.item = a.item
  WHERE u.item IS NULL
  ORDER BY a.item;
  IF NOT waits THEN
    PERFORM set_config('lock_timeout', patience, true);
  END IF;
END
$$;
-- end of enqueue_payment_outbox_arrays

-- function known_call
CREATE OR REPLACE FUNCTION {cell}.known_call(known_id uuid)
RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  other record;
BEGIN
  SELECT k.outbox_id, k.sequence_id, k.created_at, {cell}.payment_outbox_state(k.outbox_id)
  INTO outbox_id, sequence_id, created_at, state
  FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = $1;
  IF state IN ('FAILED', 'CANCELLED') THEN
    SELECT o.* INTO other FROM {cell}.other_cell_key($1) o;
    IF FOUND AND {cell}.payment_certainty($1, true) = 'OUTCOME_UNKNOWN' THEN
      state := 'ELSEWHERE';
      outbox_id := coalesce(other.other_id, outbox_id);
      sequence_id := coalesce(other.other_no, sequence_id);
      created_at := coalesce(other.other_at, created_at);
    END IF;
  END IF;
  RETURN NEXT;
END
$$;
-- end of known_call

-- function other_cell_key
CREATE OR REPLACE FUNCTION {cell}.other_cell_key(outbox_id uuid)
RETURNS TABLE (other_id uuid, other_no bigint, other_at timestamptz, cell text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  here uuid;
  own  record;
BEGIN
  SELECT c.cell_id INTO here FROM {cell}.payment_cells c WHERE c.here;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT k.outbox_id, k.instruction_id, k.idempotency_key, k.participant_id, k.created_at INTO own
  FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = $1;
  SELECT k.outbox_id, k.sequence_id, k.created_at INTO other_id, other_no, other_at
  FROM (
    SELECT k.* FROM {cell}.payment_arrived_keys k WHERE k.instruction_id = own.instruction_id OFFSET 0) k
  WHERE k.idempotency_key = own.idempotency_key AND k.participant_id = own.participant_id AND k.outbox_id <> own.outbox_id
    AND (
      SELECT a.taken_at FROM {cell}.payment_arrivals a
      WHERE a.bucket = k.bucket AND a.version = k.version) IS NOT NULL
  ORDER BY k.created_at, k.outbox_id
  LIMIT 1;
  IF FOUND THEN
    RETURN NEXT;
    RETURN;
  END IF;
  SELECT o.cell INTO cell
  FROM {cell}.payment_cell_changes o
  CROSS JOIN {cell}.payment_outbox_settings g
  WHERE o.bucket = {cell}.cell_bucket(own.participant_id) AND o.settles AND o.cell_id <> here
    AND own.created_at <= o.stored_at
    AND (own.created_at > o.changed_at - g.repeated_within
      OR EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1)
      OR EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 AND a.created_at >= o.changed_at))
    -- What the other cell has enqueued since has not come here.
    AND NOT EXISTS (
      SELECT FROM {cell}.payment_arrivals a
      WHERE a.bucket = o.bucket AND a.version > o.version AND a.taken_at IS NOT NULL AND NOT EXISTS (
        SELECT FROM {cell}.payment_cell_changes s
        WHERE s.bucket = a.bucket AND s.version > o.version AND s.version <= a.version AND s.settles))
  ORDER BY o.version DESC
  LIMIT 1;
  IF FOUND THEN
    RETURN NEXT;
  END IF;
END
$$;
-- end of other_cell_key

-- function outcome_feed
CREATE OR REPLACE FUNCTION {cell}.outcome_feed(after_xact xid8, after_outbox_id uuid, after_attempt_no integer,
  rows_max integer, ahead boolean)
RETURNS TABLE (at_xact xid8, at_outbox_id uuid, at_attempt_no integer, at_attempt_id uuid, settled boolean,
  in_place boolean, event_type text,
  attempt_id uuid, outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, attempt_no integer,
  state text, answers_attempt_no integer, created_at timestamptz, claimed_at timestamptz, completed_at timestamptz,
  result text, rail_type text, rail_reference text, rail_code text, error_code text, latency_ms integer, worker_id text,
  outcome_unknown boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT p.xact, p.outbox_id, p.attempt_no, p.attempt_id, p.xact < pg_snapshot_xmin(pg_current_snapshot()),
    coalesce(e.attempt_no = p.attempt_no, true),
    CASE
      WHEN e.outbox_id IS NULL THEN NULL
      WHEN EXISTS (
        SELECT FROM {cell}.payment_outbox_contradictions c WHERE c.outbox_id = e.outbox_id
          AND c.attempt_no = e.attempt_no)
        THEN 'payment.conflict'
      WHEN e.state IN ('ZOMBIE_REQUEUE', 'UNKNOWN') AND (
        SELECT b.outcome_unknown
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no AND b.state NOT IN ('DISPATCHING', 'INQUIRING')
        ORDER BY b.attempt_no DESC LIMIT 1)
        THEN NULL
      -- Late evidence, and a refusal for now, may be the first to make the outcome unknown.
      WHEN e.state IN ('RETRYABLE', 'LATE_OUTCOME') THEN CASE WHEN e.outcome_unknown AND (
        SELECT b.outcome_unknown
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no AND b.state NOT IN ('DISPATCHING', 'INQUIRING')
        ORDER BY b.attempt_no DESC LIMIT 1) IS NOT TRUE AND (
        SELECT b.state IN ('DISPATCHED', 'FAILED', 'CANCELLED')
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no
          AND b.state NOT IN ('DISPATCHING', 'INQUIRING', 'LATE_OUTCOME')
        ORDER BY b.attempt_no DESC LIMIT 1) IS NOT TRUE THEN 'payment.outcome_unknown' END
      WHEN e.state = 'FAILED' AND e.error_code = 'EXPIRED' THEN 'payment.expired'
      ELSE (SELECT t.type FROM (VALUES ('DISPATCHED', 'payment.dispatched'), ('FAILED', 'payment.failed'), ('ZOMBIE_REQUEUE', 'payment.outcome_unknown'), ('ACCEPTED', 'payment.accepted'), ('UNKNOWN', 'payment.outcome_unknown'), ('PARKED', 'payment.needs_attention'), ('CANCELLED', 'payment.cancelled'), ('REPLAYED', 'payment.replayed')) AS t(state, type) WHERE t.state = e.state::text)
    END,
    e.attempt_id, e.outbox_id, coalesce(k.instruction_id, e.instruction_id),
    coalesce(k.participant_id, e.participant_id), coalesce(k.sequence_id, e.sequence_id), e.attempt_no, e.state::text,
    e.answers_attempt_no, e.created_at, e.claimed_at, e.completed_at, e.result, e.rail_type, e.rail_reference,
    e.rail_code, e.error_code, e.latency_ms, e.worker_id,
    -- A cancelled call may repeat one that a restore lost, and that was executed.
    e.outcome_unknown OR (e.state = 'CANCELLED'
        OR e.state = 'FAILED' AND EXISTS (SELECT FROM {cell}.other_cell_key(e.outbox_id)))
      AND {cell}.payment_certainty(e.outbox_id, true) = 'OUTCOME_UNKNOWN'
  FROM (
    SELECT s.xact, s.outbox_id, s.attempt_no, s.attempt_id
    FROM {cell}.payment_outbox_attempts s
    WHERE s.state NOT IN ('DISPATCHING', 'INQUIRING')
      AND s.xact >= $1 AND s.xact < CASE WHEN $5 THEN pg_snapshot_xmax(pg_current_snapshot())
        ELSE pg_snapshot_xmin(pg_current_snapshot()) END
      AND (s.xact > $1 OR (s.outbox_id, s.attempt_no) > ($2, $3))
    ORDER BY s.xact, s.outbox_id, s.attempt_no
    LIMIT $4) p
  LEFT JOIN LATERAL (
    SELECT r.*
    FROM {cell}.payment_outbox_attempts r
    WHERE r.outbox_id = p.outbox_id AND r.attempt_no <= p.attempt_no AND r.state NOT IN ('DISPATCHING', 'INQUIRING')
      AND (r.xact, r.attempt_no) >= (p.xact, p.attempt_no)
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts f
        WHERE f.outbox_id = p.outbox_id AND f.attempt_no >= r.attempt_no AND f.state NOT IN ('DISPATCHING', 'INQUIRING')
          AND (f.xact, f.attempt_no) < (p.xact, p.attempt_no))) e ON true
  LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = e.outbox_id
  ORDER BY p.xact, p.outbox_id, p.attempt_no, e.attempt_no;
END
$$;
-- end of outcome_feed

-- function payment_certainty
CREATE OR REPLACE FUNCTION {cell}.payment_certainty(outbox_id uuid, settled boolean) RETURNS text
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  last     {cell}.payment_outbox_attempts; -- the last row that is not LATE_OUTCOME
  refused  {cell}.payment_outbox_attempts; -- the latest row that proves that a send was not executed
  waiting  {cell}.payment_outbox_pending;
  waits    boolean;
  ended    boolean;
  doubted  boolean; -- evidence after the last state contradicts it
BEGIN
  IF EXISTS (
    SELECT FROM {cell}.payment_dead_letters d
    WHERE d.outbox_id = $1 AND d.reason = 'CONFLICT' AND d.status NOT IN ('manual_replay', 'resolved'))
  THEN
    RETURN 'CONTRADICTED';
  END IF;
  SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1;
  waits := FOUND;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  ended := coalesce(last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED'), false);
  IF last.state = 'DISPATCHED' THEN
    RETURN CASE WHEN {cell}.rests_on_evidence(last) THEN 'EXECUTED_BY_EVIDENCE' ELSE 'ACCEPTED' END;
  END IF;
  IF NOT $2
    OR last.state = 'DISPATCHING' OR last.provisional OR last.outcome_unknown
    OR waits AND (waiting.provisional OR waiting.outcome_unknown)
  THEN
    RETURN 'OUTCOME_UNKNOWN';
  END IF;
  SELECT a.* INTO refused FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1
    AND (a.result IN ('REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'REFUSED', 'REFUSED_LATER')
      OR a.result = 'REFUSED_RAIL' AND a.rail_code <> ''
      OR a.result = 'NOT_FOUND' AND NOT a.outcome_unknown AND a.state <> 'LATE_OUTCOME'
      OR a.state = 'FAILED' AND a.error_code = 'RESOLVED')
    -- A refusal that follows an operator's evidence is of another send, or may be of one among
    -- several.
    AND (a.result IS NOT DISTINCT FROM 'REFUSED' AND a.state <> 'LATE_OUTCOME' OR (
      SELECT r.state = 'FAILED' AND r.error_code IS NOT DISTINCT FROM 'RESOLVED'
      FROM {cell}.payment_outbox_attempts r
      WHERE r.outbox_id = $1 AND r.result = 'REFUSED' AND r.state <> 'LATE_OUTCOME' AND r.attempt_no < a.attempt_no
      ORDER BY r.attempt_no DESC LIMIT 1) IS NOT TRUE)
  ORDER BY a.attempt_no DESC LIMIT 1;
  doubted := EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state = 'LATE_OUTCOME' AND a.result IN ('ACCEPTED', 'UNKNOWN', 'EXECUTED', 'IN_PROGRESS')
      AND a.attempt_no > coalesce(last.attempt_no, 0));
  IF doubted AND (last.state = 'CANCELLED' OR last.state = 'FAILED' AND refused.outbox_id IS NULL) THEN
    RETURN 'NOT_EXECUTED_BY_EVIDENCE';
  END IF;
  IF doubted AND NOT ended THEN
    RETURN 'OUTCOME_UNKNOWN';
  END IF;
  -- A refusal that never reached the payment, or a send that never left, says nothing about the
  -- call that this one may repeat.
  IF (refused.outbox_id IS NULL OR refused.result IN ('REFUSED_LATER', 'REFUSED_RAIL', 'NOT_SENT', 'CHECK_FAILED', 'TAMPERED', 'WINDOW_CLOSED', 'RENDER_CHANGED'))
    AND {cell}.repeats_forgotten_call((SELECT k.created_at FROM {cell}.payment_outbox_keys k
      WHERE k.outbox_id = $1)) IS NOT NULL
  THEN
    RETURN 'OUTCOME_UNKNOWN';
  END IF;
  IF refused.outbox_id IS NOT NULL THEN
    RETURN CASE
      WHEN ended AND {cell}.rests_on_evidence(last)
        OR (ended OR refused.attempt_no <> last.attempt_no) AND {cell}.rests_on_evidence(refused)
          THEN 'NOT_EXECUTED_BY_EVIDENCE'
      -- The rail has refused the sends of this cell.
      WHEN EXISTS (SELECT FROM {cell}.other_cell_key($1)) THEN 'OUTCOME_UNKNOWN'
      ELSE 'REFUSED' END;
  END IF;
  RETURN CASE
    WHEN EXISTS (SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 AND a.outcome_unknown)
      THEN 'OUTCOME_UNKNOWN'
    WHEN last.outbox_id IS NULL AND NOT waits THEN 'OUTCOME_UNKNOWN' -- only its registry row is left
    WHEN EXISTS (SELECT FROM {cell}.other_cell_key($1)) THEN 'OUTCOME_UNKNOWN'
    ELSE 'NOT_SENT' END;
END
$$;
-- end of payment_certainty

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 58, serves 13'
$$;
-- end of schema_version
