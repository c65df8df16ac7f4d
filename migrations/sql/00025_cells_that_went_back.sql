-- Migration 25, cells that went back. Binaries that need migration 13 or a newer one work on a cell that has it.

-- The rail keys of all cells of a directory come from one constant.
ALTER TABLE {cell}.payment_cells ADD COLUMN rail_key_namespace uuid;
COMMENT ON COLUMN {cell}.payment_cells.rail_key_namespace IS
  'The constant from which all cells of the directory derive rail keys, so that a rail recognises a payment whichever '
  'cell sends it. Null: the directory was begun before migration 25, and its cells give each other no bucket.';
ALTER TABLE {cell}.payment_cells ADD COLUMN joined_with uuid;
COMMENT ON COLUMN {cell}.payment_cells.joined_with IS
  'The constant that the database of the cell had before it joined: a restored database that has it may rejoin.';

-- On which server each other cell was when its map was read.
CREATE TABLE {cell}.payment_cell_servers (
  cell    text COLLATE "C" NOT NULL,
  seen    integer          NOT NULL,
  server  text COLLATE "C" NOT NULL,
  reason  text COLLATE "C",
  seen_by text COLLATE "C" NOT NULL DEFAULT session_user,
  seen_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT payment_cell_servers_pk PRIMARY KEY (cell, seen),
  CONSTRAINT payment_cell_servers_cell FOREIGN KEY (cell) REFERENCES {cell}.payment_cells,
  CONSTRAINT payment_cell_servers_form CHECK (seen >= 1
    AND server ~ '^[0-9]{1,20}/[0-9]{1,10}/[0-9]{4}-[0-9:. -]{1,40}[+]00/[0-9]{1,9}$')
);
COMMENT ON TABLE {cell}.payment_cell_servers IS
  'Append-only: the servers on which the other cells of the directory were, in the order of seen. A copy of a map that '
  'was read on another server than the newest one is not learned: it is from before a failover or a restore.';
COMMENT ON COLUMN {cell}.payment_cell_servers.server IS
  'System identifier, timeline, start in UTC, and how often its data was found to have gone back since, as map_server '
  'gave it there.';
COMMENT ON COLUMN {cell}.payment_cell_servers.reason IS
  'Why an operator has said that this server is the cell''s, although it does not follow the one before it.';
CREATE TRIGGER payment_cell_servers_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_cell_servers
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_cell_servers ENABLE ALWAYS TRIGGER payment_cell_servers_append_only;

ALTER TABLE {cell}.payment_cell_checks ADD COLUMN went_back integer NOT NULL DEFAULT 0;
COMMENT ON COLUMN {cell}.payment_cell_checks.went_back IS
  'How often the data was found to have gone back since the start, when the map was compared: once it is found again, '
  'the comparison says nothing any more.';
COMMENT ON TABLE {cell}.payment_cell_checks IS
  'Append-only: when the map of this cell was compared with those of the other cells, and on which start and timeline '
  'of the server. Without one a cell of several takes no instruction.';

ALTER TABLE {cell}.payment_outbox_rules ADD COLUMN confirmed_start timestamptz;
COMMENT ON COLUMN {cell}.payment_outbox_rules.confirmed_start IS
  'The start of the server on which the map of cells was compared last, unless its data was found to have gone back '
  'since; null: it never was.';

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
      AND NOT EXISTS (SELECT FROM {cell}.payment_paused_participants h WHERE h.participant_id = p.participant_id);
    IF foreigners.n > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('%s pending payments are of participants of other cells, such as %s: the same keys may be enqueued there',
          foreigners.n, quote_literal(foreigners.first)),
        HINT = 'Pause these participants here (railhead participant pause), repeat this, compare each payment with the '
          'other cell, and cancel it here.';
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

-- function confirm_map
CREATE OR REPLACE FUNCTION {cell}.confirm_map(server text, compared text[], gone text[], reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  here     {cell}.payment_cells;
  left_out text;
BEGIN
  PERFORM {cell}.require_durable_map();
  IF compared IS NULL OR gone IS NULL OR array_position(compared || gone, NULL) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the names of cells must not be null';
  END IF;
  PERFORM {cell}.require_map_server(confirm_map.server);
  SELECT c.* INTO here FROM {cell}.payment_cells c WHERE c.here;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'this cell is in no directory, and has no map',
      HINT = 'If it was in one: railhead cell rejoin.';
  END IF;
  SELECT c.name INTO left_out FROM {cell}.payment_cells c
  WHERE NOT c.here AND c.name <> ALL (confirm_map.compared || confirm_map.gone)
  ORDER BY c.name
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the map was not compared with that of cell %s', left_out),
      HINT = 'Repeat this once that cell can be reached. If it is lost for good: railhead cell sync --without.';
  END IF;
  IF coalesce(btrim(confirm_map.reason), '') = '' AND NOT EXISTS (SELECT FROM {cell}.payment_cells c WHERE NOT c.here)
    AND NOT {cell}.server_is_settled() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'this cell knows no other cell: if it was restored to a time before they joined, it takes their participants',
      HINT = 'Set the connection strings of all cells, and repeat this. If there never was another one: --reason WHY.';
  END IF;
  INSERT INTO {cell}.payment_cell_checks (system_identifier, timeline, server_started_at, went_back, compared, gone, reason)
  SELECT s.system_identifier::text, {cell}.server_timeline(), pg_postmaster_start_time(), {cell}.server_went_back(),
    ARRAY(SELECT DISTINCT c FROM unnest(confirm_map.compared) AS c ORDER BY c),
    ARRAY(SELECT DISTINCT g FROM unnest(confirm_map.gone) AS g ORDER BY g), confirm_map.reason
  FROM pg_control_system() s;
  IF confirm_map.gone <> '{}' THEN
    PERFORM {cell}.require_reason(confirm_map.reason);
  END IF;
  IF coalesce(btrim(confirm_map.reason), '') <> '' THEN
    PERFORM {cell}.log_operator_act('CONFIRM_MAP', here.name, NULL, confirm_map.reason,
      jsonb_build_object('compared', to_jsonb(confirm_map.compared), 'gone', to_jsonb(confirm_map.gone)));
  END IF;
END
$$;
-- end of confirm_map

-- function doubt_map
CREATE OR REPLACE FUNCTION {cell}.doubt_map() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '500ms'
AS $$
BEGIN
  UPDATE {cell}.payment_outbox_rules SET confirmed_start = NULL WHERE confirmed_start IS NOT NULL;
  RETURN NULL;
EXCEPTION WHEN lock_not_available THEN
  RETURN NULL;
END
$$;
-- end of doubt_map

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
  seen   record;
  fault  record;
  closed boolean := false;
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
    RETURNING s.next_sequence_id - 1 INTO sequence_id;
    IF NOT FOUND THEN
      sequence_id := {cell}.bump_participant_outbox_seq(participant_id);
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
            SELECT w.participant_id, w.n, l.next_sequence_id
            FROM wanted w
            CROSS JOIN LATERAL (
              SELECT l.next_sequence_id FROM {cell}.participant_outbox_sequences l
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
            count(*) < (SELECT count(*) FROM wanted)
          INTO lockers, firsts, missing
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
            RETURNING s.participant_id, s.next_sequence_id - w.n AS first
          )
          SELECT lockers || array_agg(b.participant_id), firsts || array_agg(b.first),
            count(*) < (SELECT count(*) FROM wanted)
          INTO lockers, firsts, missing
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

  -- Repetitions, within the batch, of an item that was not accepted. All other items are answered
  -- from what is known.
  undecided := ARRAY(
    SELECT a.item::integer
    FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", faults) WITH ORDINALITY
      AS a(instruction_id, participant_id, idempotency_key, fault, item)
    JOIN unnest(lockers) AS l(participant_id) ON l.participant_id = a.participant_id
    LEFT JOIN unnest(fresh) AS f(item) ON f.item = a.item
    LEFT JOIN LATERAL (
      SELECT true AS known
      FROM (
        SELECT k.idempotency_key, k.participant_id FROM {cell}.payment_outbox_keys k
        WHERE k.instruction_id = a.instruction_id OFFSET 0) k
      WHERE k.idempotency_key = a.idempotency_key OR k.participant_id = a.participant_id
        AND NOT settings.allow_second_key
      LIMIT 1) k ON true
    WHERE a.fault IS NULL AND f.item IS NULL AND k.known IS NULL
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

-- function flush_map
CREATE OR REPLACE FUNCTION {cell}.flush_map(server text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_map_server(flush_map.server);
  PERFORM pg_logical_emit_message(true, 'railhead', 'map');
END
$$;
-- end of flush_map

-- function foreign_participants
CREATE OR REPLACE FUNCTION {cell}.foreign_participants() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT count(*)
  FROM {cell}.payment_cells h
  CROSS JOIN (SELECT {cell}.cell_bucket(s.participant_id) AS bucket FROM {cell}.participant_outbox_sequences s OFFSET 0) p
  JOIN {cell}.payment_buckets b ON b.bucket = p.bucket
  WHERE h.here AND b.cell <> h.name
$$;
-- end of foreign_participants

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
  -- A new statement: it sees every participant whose transaction the locks have waited for.
  SELECT count(*) AS n, count(DISTINCT p.bucket) AS buckets, min(p.bucket) AS first INTO held
  FROM (SELECT {cell}.cell_bucket(s.participant_id) AS bucket FROM {cell}.participant_outbox_sequences s OFFSET 0) p
  WHERE p.bucket = ANY (given);
  IF held.n > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('%s participants of %s of the buckets, such as bucket %s, have payments in this cell', held.n,
        held.buckets, held.first),
      HINT = 'Assign other buckets: payments can''t be moved between cells.';
  END IF;
  INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, reason)
  SELECT b.bucket, b.version + 1, taker.name, taker.cell_id, give_buckets.reason
  FROM {cell}.payment_buckets b WHERE b.bucket = ANY (given);
  UPDATE {cell}.payment_buckets b SET cell = taker.name, version = b.version + 1, mine = false
  WHERE b.bucket = ANY (given);
  PERFORM {cell}.log_operator_act('GIVE_BUCKETS', taker.name, NULL, give_buckets.reason,
    jsonb_build_object('buckets', to_jsonb(given)));
  RETURN cardinality(given);
END
$$;
-- end of give_buckets

-- function keep_namespace
CREATE OR REPLACE FUNCTION {cell}.keep_namespace() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF EXISTS (SELECT FROM {cell}.payment_outbox_keys) OR EXISTS (SELECT FROM {cell}.participant_outbox_sequences) THEN
    RAISE EXCEPTION USING ERRCODE = 'P0001',
      MESSAGE = format('%s of rail_key_namespace of %I.%I is refused', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME),
      HINT = 'Rail keys were derived from it. With another value a repeated call would be another payment to the rails.';
  END IF;
  RETURN NEW;
END
$$;
-- end of keep_namespace

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
    SELECT c.* FROM jsonb_to_recordset(changes) AS c(bucket integer, version integer, cell_id uuid, settles boolean)
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
      WHERE k.cell_id IS DISTINCT FROM g.cell_id AND g.version >= coalesce(s.version, 0)
      UNION
      SELECT g.bucket
      FROM given g
      LEFT JOIN settled s ON s.bucket = g.bucket
      WHERE g.version >= coalesce(s.version, 0)
      GROUP BY g.bucket, g.version
      HAVING count(DISTINCT g.cell_id) > 1
      UNION
      SELECT b.bucket
      FROM {cell}.payment_buckets b
      LEFT JOIN settled s ON s.bucket = b.bucket
      WHERE b.bucket = ANY (touched) AND b.contradicted AND coalesce(s.version, 0) <= b.version)
  INTO disputed;

  INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, settles, reason, changed_by, changed_at)
  SELECT c.bucket, c.version, c.cell, c.cell_id, coalesce(c.settles, false), c.reason, c.changed_by, c.changed_at
  FROM jsonb_to_recordset(changes) AS c(bucket integer, version integer, cell text, cell_id uuid, settles boolean,
    reason text, changed_by text, changed_at timestamptz)
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
  UPDATE {cell}.payment_buckets b
  SET mine = false, contradicted = true
  WHERE b.bucket = ANY (disputed) AND NOT b.contradicted;
  contradicted := cardinality(disputed);
  UPDATE {cell}.payment_buckets b
  SET cell = k.cell, version = k.version, mine = b.mine AND k.cell_id = here.cell_id, contradicted = false
  FROM (
    SELECT DISTINCT ON (k.bucket) k.bucket, k.cell, k.cell_id, k.version
    FROM {cell}.payment_cell_changes k
    WHERE k.bucket = ANY (touched)
    ORDER BY k.bucket, k.version DESC) k
  WHERE b.bucket = k.bucket AND b.bucket <> ALL (disputed) AND b.version < k.version;
  SELECT count(*) INTO later FROM {cell}.payment_buckets b
  WHERE b.cell = here.name AND NOT b.mine AND NOT b.contradicted;
  IF later > 0 AND servers IS NOT NULL AND {cell}.server_is_settled() THEN
    UPDATE {cell}.payment_buckets b SET mine = true
    WHERE b.cell = here.name AND NOT b.mine AND NOT b.contradicted;
    learned := greatest(learned, later);
    later := 0;
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

-- function map_is_confirmed
CREATE OR REPLACE FUNCTION {cell}.map_is_confirmed() RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM {cell}.payment_cell_checks k
    WHERE k.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
      AND k.timeline = {cell}.server_timeline() AND k.server_started_at = pg_postmaster_start_time()
      AND k.went_back = {cell}.server_went_back())
    OR NOT EXISTS (SELECT FROM {cell}.payment_cells c WHERE NOT c.here)
      AND ({cell}.server_is_settled() OR NOT EXISTS (SELECT FROM {cell}.payment_cells));
END
$$;
-- end of map_is_confirmed

-- function map_server
CREATE OR REPLACE FUNCTION {cell}.map_server() RETURNS text
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
  SELECT c.system_identifier || '/' || {cell}.server_timeline() || '/' || pg_postmaster_start_time() || '/'
    || {cell}.server_went_back()
  FROM pg_control_system() c
$$;
-- end of map_server

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
        HINT = 'A cell joins a directory while it is empty: payments can''t be moved between cells.';
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

-- function note_cell_server
CREATE OR REPLACE FUNCTION {cell}.note_cell_server(cell text, server text, reason text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  form  CONSTANT text := '^([0-9]{1,20})/([0-9]{1,10})/([0-9]{4}-[0-9:. -]{1,40}[+]00)/([0-9]{1,9})$';
  known {cell}.payment_cell_servers;
  was   text[] COLLATE "C";
  now   CONSTANT text[] COLLATE "C" := regexp_match(note_cell_server.server COLLATE "C", form);
BEGIN
  PERFORM {cell}.require_durable_map();
  IF now IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a server is system identifier, timeline, start in UTC and a count, separated by slashes',
      HINT = 'Read it in that cell: SELECT map_server(). A standby has none.';
  END IF;
  IF NOT EXISTS (SELECT FROM {cell}.payment_cells c WHERE c.name = note_cell_server.cell COLLATE "C" AND NOT c.here) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no other cell %s', coalesce(quote_literal(left(note_cell_server.cell, 64)), 'NULL')),
      HINT = 'See railhead cell list.';
  END IF;
  LOCK TABLE {cell}.payment_cell_servers IN SHARE ROW EXCLUSIVE MODE;
  SELECT s.* INTO known FROM {cell}.payment_cell_servers s
  WHERE s.cell = note_cell_server.cell COLLATE "C"
  ORDER BY s.seen DESC
  LIMIT 1;
  IF known.server = note_cell_server.server COLLATE "C" THEN
    RETURN false;
  END IF;
  was := regexp_match(known.server, form);
  IF NOT (was[1] = now[1] AND (was[2]::bigint, was[3]::timestamptz, was[4]::integer)
    < (now[2]::bigint, now[3]::timestamptz, now[4]::integer))
    AND coalesce(btrim(note_cell_server.reason), '') = '' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the server that was read as cell %s (system %s, timeline %s, started %s) does not follow the one that this cell knows (system %s, timeline %s, started %s)',
        known.cell, now[1], now[2], now[3], was[1], was[2], was[3]),
      HINT = 'Another act may have seen a newer one meanwhile: repeat this first. If it stays, it may be a copy of the '
        'cell''s database: look where its connection setting leads. If it is the cell (restored without its history of '
        'timelines, started while its clock was set back, or moved to a new PostgreSQL): railhead cell sync --server '
        'CELL --reason WHY.';
  END IF;
  INSERT INTO {cell}.payment_cell_servers (cell, seen, server, reason)
  VALUES (note_cell_server.cell, coalesce(known.seen, 0) + 1, note_cell_server.server, note_cell_server.reason);
  IF coalesce(btrim(note_cell_server.reason), '') <> '' THEN
    PERFORM {cell}.log_operator_act('NOTE_CELL_SERVER', note_cell_server.cell, NULL, note_cell_server.reason,
      jsonb_build_object('server', note_cell_server.server, 'before', known.server));
  END IF;
  RETURN true;
END
$$;
-- end of note_cell_server

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
          WHEN b.mine THEN 'the server of this cell was started or promoted, and may have gone back in time: until its map '
            'was compared with those of the other cells, it takes no instruction'
          WHEN b.cell IS NULL OR EXISTS (SELECT FROM {cell}.payment_cells c WHERE c.here AND c.name = b.cell)
            THEN format('this cell does not take bucket %s of the participant yet: it has to learn the map of cells', b.bucket)
          ELSE format('the participant belongs to cell %s: bucket %s, version %s of its map', b.cell, b.bucket, b.version)
        END,
        CASE WHEN b.mine OR b.contradicted OR b.cell IS NULL
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

-- function prune
CREATE OR REPLACE FUNCTION {cell}.prune(
  what text, before timestamptz, reason text, after text, batch integer, dry_run boolean)
RETURNS TABLE (seen integer, pruned integer, kept_open integer, kept_recent integer, kept_needed integer, next_key text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  floor_age CONSTANT interval := '7 days';
  batch_max CONSTANT integer := 10000;
  chosen    uuid[];
  gone      text[];
BEGIN
  PERFORM {cell}.require_reason($3);
  IF $1 IN ('attempts', 'archive', 'instructions', 'keys', 'operator-log') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('%s: the archive is append-only, and nothing in it is pruned', $1),
      HINT = 'Detach the partitions of a month, as docs/operations.md says. The registry and the operator log stay.';
  END IF;
  IF $1 IS NULL OR $1 NOT IN ('dead-letters', 'heartbeats') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'dead-letters and heartbeats can be pruned, and nothing else';
  END IF;
  IF $2 IS NULL OR NOT isfinite($2) OR $2 > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the time before which is pruned is missing, infinite or in the future',
      HINT = 'Give a time that is more than 7 days ago.';
  END IF;
  IF $2 > clock_timestamp() - floor_age THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the time before which is pruned is within the last 7 days',
      HINT = 'What was closed in the last 7 days stays for those who hand over, and for the next reconciliation.';
  END IF;
  IF $5 IS NULL OR $5 NOT BETWEEN 1 AND batch_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = format('a batch has 1 to %s rows', batch_max);
  END IF;
  PERFORM {cell}.require_settled_server('pruning');
  PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.prune', 0));

  IF $1 = 'heartbeats' THEN
    SELECT coalesce(array_agg(b.name), '{}'), count(*),
      count(*) FILTER (WHERE b.last_tick_at >= $2)
    INTO gone, seen, kept_recent
    FROM (
      SELECT h.name, h.last_tick_at FROM {cell}.outbox_heartbeats h
      WHERE h.name > coalesce($4, '') COLLATE "C"
      ORDER BY h.name
      LIMIT $5) b;
    IF seen = $5 THEN
      next_key := gone[seen];
    END IF;
    SELECT coalesce(array_agg(o.name), '{}') INTO gone
    FROM (
      SELECT h.name
      FROM {cell}.outbox_heartbeats h
      WHERE h.name = ANY (gone) AND h.last_tick_at < $2
        AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_claims f WHERE f.worker_id = h.name)
        AND (h.kind <> 'relayer' OR EXISTS (
          SELECT FROM {cell}.outbox_heartbeats n
          WHERE n.kind = 'relayer' AND (n.last_tick_at, n.name) > (h.last_tick_at, h.name) AND n.vouched >= h.vouched))
        AND (h.kind NOT IN ('relayer', 'reaper') OR NOT h.vouched OR EXISTS (
          SELECT FROM {cell}.outbox_heartbeats n
          WHERE n.kind IN ('relayer', 'reaper') AND n.vouched AND (n.last_tick_at, n.name) > (h.last_tick_at, h.name)
            AND n.server_started_at >= h.server_started_at))
      ORDER BY h.name
      FOR UPDATE OF h SKIP LOCKED) o;
    pruned := cardinality(gone);
    kept_open := 0;
    kept_needed := seen - kept_recent - pruned;
    IF dry_run IS NOT TRUE THEN
      DELETE FROM {cell}.outbox_heartbeats h WHERE h.name = ANY (gone) AND h.last_tick_at < $2;
      GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
  ELSE
    SELECT coalesce(array_agg(b.outbox_id), '{}'), count(*), count(*) FILTER (WHERE NOT b.closed),
      count(*) FILTER (WHERE b.closed AND b.updated_at >= $2)
    INTO chosen, seen, kept_open, kept_recent
    FROM (
      SELECT d.outbox_id, d.status IN ('manual_replay', 'resolved') AS closed, d.updated_at
      FROM {cell}.payment_dead_letters d
      WHERE $4 IS NULL OR d.outbox_id > $4::uuid
      ORDER BY d.outbox_id
      LIMIT $5) b;
    IF seen = $5 THEN
      next_key := chosen[seen]::text;
    END IF;
    -- The lock comes before the row is judged: open_dead_letters, which opens it again, takes it too.
    SELECT coalesce(array_agg(o.outbox_id), '{}') INTO chosen
    FROM (
      SELECT d.outbox_id
      FROM {cell}.payment_dead_letters d
      WHERE d.outbox_id = ANY (chosen) AND d.status IN ('manual_replay', 'resolved') AND d.updated_at < $2
      ORDER BY d.outbox_id
      FOR UPDATE SKIP LOCKED) o;
    SELECT coalesce(array_agg(d.outbox_id), '{}') INTO chosen
    FROM {cell}.payment_dead_letters d
    LEFT JOIN LATERAL (
      SELECT a.state FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = d.outbox_id AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC
      LIMIT 1) last ON true
    WHERE d.outbox_id = ANY (chosen)
      AND EXISTS (SELECT FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = d.outbox_id)
      AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = d.outbox_id)
      AND CASE
        WHEN last.state IS NOT NULL THEN last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED') AND last.state <> 'FAILED'
          AND d.reason <> 'UNCLAIMABLE'
          AND (EXISTS (SELECT FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = d.outbox_id)
            OR EXISTS (SELECT FROM {cell}.payment_outbox_attempts a
              WHERE a.outbox_id = d.outbox_id AND a.payload IS NOT NULL))
        ELSE {cell}.left_the_archive(d.outbox_id) END;
    pruned := cardinality(chosen);
    kept_needed := seen - kept_open - kept_recent - pruned;
    IF dry_run IS NOT TRUE THEN
      DELETE FROM {cell}.payment_dead_letters d WHERE d.outbox_id = ANY (chosen);
      GET DIAGNOSTICS pruned = ROW_COUNT;
    END IF;
  END IF;
  IF dry_run IS NOT TRUE AND pruned > 0 THEN
    PERFORM {cell}.log_operator_act('PRUNE', $1, NULL, $3,
      jsonb_build_object('before', $2, 'pruned', pruned, 'seen', seen,
        'removed', CASE $1 WHEN 'heartbeats' THEN to_jsonb(gone) ELSE to_jsonb(chosen) END));
  END IF;
  RETURN NEXT;
END
$$;
-- end of prune

-- function recall_memory
CREATE OR REPLACE FUNCTION {cell}.recall_memory(name text, beats bigint, beaten_at timestamptz,
  outbox_id uuid, attempt_no integer, claimed_at timestamptz, own_name text)
RETURNS TABLE (beats_missing boolean, claim_missing boolean, vouched boolean, known boolean, outdated boolean,
  awaited text[], awaited_ms bigint, patience_ms bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH beat AS MATERIALIZED (
    SELECT h.name, h.kind, h.status, h.last_tick_at, h.stale_after_ms,
      h.server_started_at = pg_postmaster_start_time() AS here,
      h.vouched AND h.server_started_at = pg_postmaster_start_time() AS vouched,
      h.kind = 'relayer' AND h.vouched AND h.server_started_at <> pg_postmaster_start_time() AS vouched_before,
      CASE WHEN h.server_started_at = pg_postmaster_start_time() THEN h.tick_before_start
        ELSE h.last_tick_at END AS before_start
    FROM {cell}.outbox_heartbeats h
  ),
  awaited AS MATERIALIZED (
    SELECT b.name, b.stale_after_ms
    FROM beat b
    WHERE b.kind = 'relayer' AND b.status <> 'stopped' AND NOT b.here AND b.name <> $7
      AND b.last_tick_at > (SELECT coalesce(max(m.last_tick_at) FILTER (WHERE m.vouched_before), '-infinity')
        FROM beat m) - b.stale_after_ms * interval '1 millisecond'
    ORDER BY b.name
    LIMIT 20
  )
  SELECT
    $1::text IS NOT NULL
      AND NOT EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.name = $1 AND h.beats >= $2::bigint)
      AND ($3::timestamptz > clock_timestamp() - interval '1 day' OR EXISTS (SELECT FROM {cell}.outbox_heartbeats h
        WHERE h.name = $1 AND h.last_tick_at <= $3)) AS beats_missing,
    $4::uuid IS NOT NULL AND ($6::timestamptz > clock_timestamp() - interval '1 day' OR NOT {cell}.left_the_archive($4))
      AND (
      SELECT true FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $4 AND a.attempt_no = $5::integer AND a.claimed_at = $6
      LIMIT 1) IS NULL AS claim_missing,
    EXISTS (SELECT FROM beat b WHERE b.vouched AND b.kind IN ('relayer', 'reaper')) AS vouched,
    EXISTS (SELECT FROM beat b WHERE b.kind = 'relayer') AS known,
    coalesce((SELECT max(b.before_start) FROM beat b
      WHERE b.kind = 'relayer') > $3::timestamptz + interval '15 minutes', false)
      OR coalesce($3::timestamptz <= clock_timestamp() - interval '1 day', false)
        AND NOT EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.name = $1) AS outdated,
    ARRAY(SELECT w.name FROM awaited w ORDER BY w.name) AS awaited,
    coalesce((SELECT max(w.stale_after_ms) FROM awaited w), 0) AS awaited_ms,
    (SELECT s.heartbeat_stale_ms::bigint FROM {cell}.payment_outbox_settings s WHERE s.singleton) AS patience_ms
$$;
-- end of recall_memory

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
        THEN string_agg(b.mine::integer::text, '' ORDER BY b.bucket)::bit(1024) END
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

-- function require_cell_servers
CREATE OR REPLACE FUNCTION {cell}.require_cell_servers(servers jsonb) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  named text;
BEGIN
  LOCK TABLE {cell}.payment_cell_servers IN SHARE MODE;
  SELECT v.cell INTO named
  FROM jsonb_to_recordset(servers) AS v(cell text, server text)
  LEFT JOIN {cell}.payment_cells c ON c.name = v.cell COLLATE "C"
  WHERE v.server IS DISTINCT FROM CASE WHEN c.here THEN {cell}.map_server() ELSE (
    SELECT s.server FROM {cell}.payment_cell_servers s
    WHERE s.cell = v.cell COLLATE "C"
    ORDER BY s.seen DESC
    LIMIT 1) END
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the map of cell %s was read on another server than the one that this cell knows of it: it may be from before a failover or a restore',
        coalesce(left(named, 64), 'without a name')),
      HINT = 'Read and compare all maps again: railhead cell sync.';
  END IF;
END
$$;
-- end of require_cell_servers

-- function require_confirmed_map
CREATE OR REPLACE FUNCTION {cell}.require_confirmed_map(act text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF NOT {cell}.map_is_confirmed() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the map of cells was not compared with those of the other cells since the server was started or promoted: this cell may have forgotten that it gave participants away, and %s has to wait until it was', act),
      HINT = 'railhead cell sync, then repeat this.';
  END IF;
END
$$;
-- end of require_confirmed_map

-- function require_directory
CREATE OR REPLACE FUNCTION {cell}.require_directory(argument anyelement) RETURNS anyelement
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  IF (SELECT r.own_buckets IS NULL FROM {cell}.payment_outbox_rules r) IS NOT FALSE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH009',
      MESSAGE = 'this cell is in no directory of cells: it may have been restored to a time before it joined',
      COLUMN = 'participant_id', CONSTRAINT = 'CELL',
      HINT = 'Nothing was stored. Repeat it later with the same key and content.';
  END IF;
  RETURN argument;
END
$$;
-- end of require_directory

-- function require_map_server
CREATE OR REPLACE FUNCTION {cell}.require_map_server(server text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF require_map_server.server IS DISTINCT FROM {cell}.map_server() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'the server was started or promoted since its map was read',
      HINT = 'Read and compare all maps again: railhead cell sync.';
  END IF;
END
$$;
-- end of require_map_server

-- function server_is_settled
CREATE OR REPLACE FUNCTION {cell}.server_is_settled() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT NOT EXISTS (SELECT FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL)
      AND EXISTS (
        SELECT FROM {cell}.payment_accepted_timelines t
        WHERE t.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
          AND t.timeline = {cell}.server_timeline())
      AND (
        EXISTS (
          SELECT FROM {cell}.outbox_heartbeats h
          WHERE h.vouched AND h.kind IN ('relayer', 'reaper') AND h.server_started_at = pg_postmaster_start_time())
        OR EXISTS (
          SELECT FROM {cell}.payment_outbox_suspensions s
          WHERE s.accepted_at <= clock_timestamp() AND s.server_started_at = pg_postmaster_start_time())
        OR NOT EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.kind = 'relayer')));
END
$$;
-- end of server_is_settled

-- function server_went_back
CREATE OR REPLACE FUNCTION {cell}.server_went_back() RETURNS integer
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT count(*)::integer
  FROM {cell}.payment_outbox_suspensions s
  WHERE s.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND s.server_started_at = pg_postmaster_start_time()
$$;
-- end of server_went_back

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
  WHERE g.version <= b.version AND NOT (g.version = b.version AND EXISTS (
    SELECT FROM {cell}.payment_cell_changes k
    WHERE k.bucket = g.bucket AND k.version = g.version AND k.cell_id = taker.cell_id AND k.settles));
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell knows a version of bucket %s that is as high', wrong),
      HINT = 'Read all maps again: railhead cell sync.';
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

-- function suspend_outbox
CREATE OR REPLACE FUNCTION {cell}.suspend_outbox(worker_id text, cause text, detail text, looked_at timestamptz)
  RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  id uuid;
BEGIN
  IF cause IS NULL OR cause NOT IN ('NEW_SERVER', 'NEW_TIMELINE', 'LOG_WENT_BACK', 'ROWS_MISSING', 'NO_MEMORY') THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%L is not a cause of a suspension', cause);
  END IF;
  -- Only acceptances of this start and this timeline count: others may have the times of another
  -- server's clock.
  IF EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s
      WHERE s.accepted_at > looked_at AND s.accepted_at <= clock_timestamp()
        AND s.server_started_at = pg_postmaster_start_time() AND s.timeline = {cell}.server_timeline())
    OR cause = 'NEW_TIMELINE' AND EXISTS (
      SELECT FROM {cell}.payment_accepted_timelines t
      WHERE t.accepted_at > looked_at AND t.accepted_at <= clock_timestamp() AND t.timeline = {cell}.server_timeline()
        AND t.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c))
  THEN
    RETURN NULL;
  END IF;
  INSERT INTO {cell}.payment_outbox_suspensions AS s
    (worker_id, cause, detail, system_identifier, timeline, server_started_at, known_until)
  SELECT suspend_outbox.worker_id, suspend_outbox.cause, left(suspend_outbox.detail, 500), c.system_identifier::text,
    {cell}.server_timeline(), pg_postmaster_start_time(),
    least(clock_timestamp(), coalesce((
      SELECT max(CASE WHEN h.vouched AND h.server_started_at <> pg_postmaster_start_time() THEN h.last_tick_at
        ELSE h.tick_before_start END)
      FROM {cell}.outbox_heartbeats h
      WHERE h.kind IN ('relayer', 'reaper')), '-infinity'))
  FROM pg_control_system() c
  ON CONFLICT ((accepted_at IS NULL)) WHERE accepted_at IS NULL DO UPDATE SET
    worker_id = excluded.worker_id, cause = excluded.cause, detail = excluded.detail,
    system_identifier = excluded.system_identifier, timeline = excluded.timeline,
    server_started_at = excluded.server_started_at, known_until = least(s.known_until, excluded.known_until),
    opened_at = excluded.opened_at
  WHERE (s.system_identifier, s.timeline, s.server_started_at)
    IS DISTINCT FROM (excluded.system_identifier, excluded.timeline, excluded.server_started_at)
    OR excluded.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND s.cause NOT IN ('LOG_WENT_BACK', 'ROWS_MISSING')
  RETURNING s.suspension_id INTO id;
  RETURN coalesce(id, (SELECT s.suspension_id FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL));
END
$$;
-- end of suspend_outbox

-- function takes_participant
CREATE OR REPLACE FUNCTION {cell}.takes_participant(own_buckets bit, participant_id text) RETURNS boolean
LANGUAGE sql STABLE
AS $$
  SELECT $1 IS NULL OR get_bit($1, {cell}.cell_bucket($2)) = 1 AND {cell}.map_is_confirmed()
$$;
-- end of takes_participant

DROP FUNCTION {cell}.admits_participant(text);
DROP FUNCTION {cell}.learn_cells(uuid, jsonb, jsonb);
DROP FUNCTION {cell}.flush_map();
DROP FUNCTION {cell}.name_cell(text, text, text, text, uuid, jsonb, jsonb, uuid);
DROP FUNCTION {cell}.settle_buckets(integer[], integer[], text, text);

CREATE OR REPLACE TRIGGER payment_outbox_settings_namespace
  BEFORE UPDATE OF rail_key_namespace ON {cell}.payment_outbox_settings
  FOR EACH ROW WHEN (OLD.rail_key_namespace IS DISTINCT FROM NEW.rail_key_namespace)
  EXECUTE FUNCTION {cell}.keep_namespace();
ALTER TABLE {cell}.payment_outbox_settings ENABLE ALWAYS TRIGGER payment_outbox_settings_namespace;
CREATE TRIGGER payment_cell_checks_rules
  AFTER INSERT ON {cell}.payment_cell_checks
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refresh_outbox_rules();
ALTER TABLE {cell}.payment_cell_checks ENABLE ALWAYS TRIGGER payment_cell_checks_rules;
CREATE TRIGGER payment_outbox_suspensions_rules
  AFTER INSERT OR UPDATE OF cause, server_started_at ON {cell}.payment_outbox_suspensions
  FOR EACH ROW WHEN (NEW.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING'))
  EXECUTE FUNCTION {cell}.doubt_map();
ALTER TABLE {cell}.payment_outbox_suspensions ENABLE ALWAYS TRIGGER payment_outbox_suspensions_rules;

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 25, serves 13'
$$;
-- end of schema_version
