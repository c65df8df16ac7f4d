-- Migration 23, cells. Binaries that need migration 13 or a newer one work on a cell that has it.

CREATE TABLE {cell}.payment_cells (
  name         text COLLATE "C" NOT NULL,
  cell_id      uuid             NOT NULL,
  setting      text COLLATE "C" NOT NULL,
  cell_schema  text COLLATE "C" NOT NULL,
  directory_id uuid             NOT NULL,
  here         boolean          NOT NULL,
  reason       text COLLATE "C" NOT NULL,
  added_by     text COLLATE "C" NOT NULL DEFAULT session_user,
  added_at     timestamptz      NOT NULL DEFAULT clock_timestamp(),
  stored_by    text COLLATE "C" NOT NULL DEFAULT session_user,
  stored_at    timestamptz      NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT payment_cells_pk PRIMARY KEY (name),
  CONSTRAINT payment_cells_id UNIQUE (cell_id),
  CONSTRAINT payment_cells_named UNIQUE (name, cell_id),
  CONSTRAINT payment_cells_form CHECK (name ~ '^[a-z][a-z0-9_-]{0,62}$' AND setting ~ '^[A-Z][A-Z0-9_]{0,62}$'
    AND cell_schema ~ '^[a-z_][a-z0-9_]{0,62}$')
);
COMMENT ON TABLE {cell}.payment_cells IS
  'Append-only: the cells of the directory that this cell is part of, as far as it knows them. No row: the cell has '
  'no map, and takes the instructions of all participants.';
COMMENT ON COLUMN {cell}.payment_cells.cell_id IS
  'Which database the cell is: it was made up there when the cell was named, and no other one has it.';
COMMENT ON COLUMN {cell}.payment_cells.setting IS
  'The name under which each process finds its own connection string of the cell; never a connection string.';
COMMENT ON COLUMN {cell}.payment_cells.here IS 'Whether the row names the cell in whose database it is.';
COMMENT ON COLUMN {cell}.payment_cells.stored_at IS
  'When this copy of the row was stored; added_at is the time at which the cell itself joined the directory.';
CREATE UNIQUE INDEX payment_cells_here ON {cell}.payment_cells (here) WHERE here;

CREATE TABLE {cell}.payment_cell_changes (
  bucket     integer          NOT NULL,
  version    integer          NOT NULL,
  cell       text COLLATE "C" NOT NULL,
  cell_id    uuid             NOT NULL,
  settles    boolean          NOT NULL DEFAULT false,
  reason     text COLLATE "C" NOT NULL,
  changed_by text COLLATE "C" NOT NULL DEFAULT session_user,
  changed_at timestamptz      NOT NULL DEFAULT clock_timestamp(),
  stored_by  text COLLATE "C" NOT NULL DEFAULT session_user,
  stored_at  timestamptz      NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT payment_cell_changes_pk PRIMARY KEY (bucket, version),
  CONSTRAINT payment_cell_changes_cell FOREIGN KEY (cell, cell_id) REFERENCES {cell}.payment_cells (name, cell_id),
  CONSTRAINT payment_cell_changes_range CHECK (bucket BETWEEN 0 AND 1023 AND version >= 1)
);
COMMENT ON TABLE {cell}.payment_cell_changes IS
  'Append-only: each cell that a bucket was given to, in the order of version. Version n + 1 was first stored in the '
  'cell that version n names, which refuses the bucket from then on.';
COMMENT ON COLUMN {cell}.payment_cell_changes.settles IS
  'Whether an operator has settled with it what the maps of cells contradicted each other about: it replaces every '
  'version before it.';
COMMENT ON COLUMN {cell}.payment_cell_changes.changed_by IS 'The login that made the change, in the cell that gave.';

-- A row is there for every bucket of every cell, because the first instruction of a participant locks it.
CREATE TABLE {cell}.payment_buckets (
  bucket       integer NOT NULL,
  cell         text COLLATE "C",
  version      integer NOT NULL DEFAULT 0,
  mine         boolean NOT NULL DEFAULT true,
  contradicted boolean NOT NULL DEFAULT false,
  CONSTRAINT payment_buckets_pk PRIMARY KEY (bucket),
  CONSTRAINT payment_buckets_cell FOREIGN KEY (cell) REFERENCES {cell}.payment_cells,
  CONSTRAINT payment_buckets_range CHECK (bucket BETWEEN 0 AND 1023 AND (cell IS NULL) = (version = 0)),
  CONSTRAINT payment_buckets_doubt CHECK (NOT (mine AND contradicted))
) WITH (fillfactor = 50);
COMMENT ON TABLE {cell}.payment_buckets IS
  'The newest row of payment_cell_changes for each bucket; null and 0 while the cell has no map.';
COMMENT ON COLUMN {cell}.payment_buckets.mine IS
  'Whether this cell takes the bucket: it is the cell of the row and nothing is contradicted, or there is no map.';
COMMENT ON COLUMN {cell}.payment_buckets.contradicted IS
  'Whether another cell has named another cell for a version that this one knows: none takes the bucket until an '
  'operator has settled it (settle_buckets).';
INSERT INTO {cell}.payment_buckets (bucket) SELECT generate_series(0, 1023);

CREATE TABLE {cell}.payment_cell_checks (
  system_identifier text COLLATE "C" NOT NULL,
  timeline          bigint           NOT NULL,
  server_started_at timestamptz      NOT NULL,
  compared          text[] COLLATE "C" NOT NULL,
  gone              text[] COLLATE "C" NOT NULL,
  reason            text COLLATE "C",
  checked_by        text COLLATE "C" NOT NULL DEFAULT session_user,
  checked_at        timestamptz      NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT payment_cell_checks_pk PRIMARY KEY (system_identifier, timeline, server_started_at, checked_at)
);
COMMENT ON TABLE {cell}.payment_cell_checks IS
  'Append-only: when the map of this cell was compared with those of the other cells, and on which start and timeline '
  'of the server. After a restore or a failover without one, no participant is taken that is new to this cell.';
COMMENT ON COLUMN {cell}.payment_cell_checks.gone IS
  'The cells without which an operator went on; the reason is theirs.';

CREATE TRIGGER payment_cell_checks_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_cell_checks
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_cell_checks ENABLE ALWAYS TRIGGER payment_cell_checks_append_only;
CREATE TRIGGER payment_cells_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_cells
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_cells ENABLE ALWAYS TRIGGER payment_cells_append_only;
CREATE TRIGGER payment_cell_changes_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_cell_changes
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_cell_changes ENABLE ALWAYS TRIGGER payment_cell_changes_append_only;
CREATE TRIGGER payment_buckets_kept
  BEFORE DELETE OR TRUNCATE ON {cell}.payment_buckets
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_buckets ENABLE ALWAYS TRIGGER payment_buckets_kept;

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
    IF NOT EXISTS (
      SELECT FROM {cell}.payment_cell_checks k
      WHERE (k.system_identifier, k.timeline, k.server_started_at)
        = (accept_timeline.system_identifier, accept_timeline.timeline, pg_postmaster_start_time()))
    THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'the map of cells was not compared with those of the other cells since the server was started or '
          'promoted: this cell may have forgotten that it gave participants away',
        HINT = 'railhead cell sync, then repeat this.';
    END IF;
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

-- function admits_participant
CREATE OR REPLACE FUNCTION {cell}.admits_participant(participant_id text) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RETURN EXISTS (
    SELECT FROM {cell}.participant_outbox_sequences s
    WHERE s.participant_id = admits_participant.participant_id COLLATE "C") OR {cell}.map_is_confirmed();
END
$$;
-- end of admits_participant

-- function cell_bucket
CREATE OR REPLACE FUNCTION {cell}.cell_bucket(participant_id text) RETURNS integer
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
  SELECT ('x' OPERATOR(pg_catalog.||) pg_catalog.left(pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to($1,
    'UTF8')), 'hex'), 3))::pg_catalog.bit(12)::pg_catalog.int4 OPERATOR(pg_catalog.>>) 2
$$;
-- end of cell_bucket

-- function cell_map
CREATE OR REPLACE FUNCTION {cell}.cell_map()
RETURNS TABLE (bucket integer, cell text, version integer, setting text, cell_schema text, here boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT b.bucket, b.cell, b.version, c.setting, c.cell_schema, c.here
  FROM {cell}.payment_buckets b
  JOIN {cell}.payment_cells c ON c.name = b.cell
  ORDER BY b.bucket
$$;
-- end of cell_map

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
  IF confirm_map.server IS DISTINCT FROM {cell}.map_server() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'the server was started or promoted since its map was read',
      HINT = 'Read and compare all maps again: railhead cell sync.';
  END IF;
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
  INSERT INTO {cell}.payment_cell_checks (system_identifier, timeline, server_started_at, compared, gone, reason)
  SELECT s.system_identifier::text, {cell}.server_timeline(), pg_postmaster_start_time(),
    ARRAY(SELECT DISTINCT c FROM unnest(confirm_map.compared) AS c ORDER BY c),
    ARRAY(SELECT DISTINCT g FROM unnest(confirm_map.gone) AS g ORDER BY g), confirm_map.reason
  FROM pg_control_system() s;
  IF confirm_map.gone <> '{}' THEN
    PERFORM {cell}.require_reason(confirm_map.reason);
    PERFORM {cell}.log_operator_act('CONFIRM_MAP', here.name, NULL, confirm_map.reason,
      jsonb_build_object('compared', to_jsonb(confirm_map.compared), 'gone', to_jsonb(confirm_map.gone)));
  END IF;
END
$$;
-- end of confirm_map

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
      AND {cell}.takes_participant(r.own_buckets, participant_id)
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
          AND {cell}.takes_participant(r.own_buckets, a.participant_id)
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
CREATE OR REPLACE FUNCTION {cell}.flush_map() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM {cell}.require_durable_map();
  PERFORM pg_logical_emit_message(true, 'railhead', 'map');
END
$$;
-- end of flush_map

-- function give_buckets
CREATE OR REPLACE FUNCTION {cell}.give_buckets(buckets integer[], cell text, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
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

-- function learn_cells
CREATE OR REPLACE FUNCTION {cell}.learn_cells(directory_id uuid, cells jsonb, changes jsonb,
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
  SELECT c.name INTO named
  FROM jsonb_to_recordset(cells) AS c(name text, cell_id uuid, setting text, cell_schema text)
  JOIN {cell}.payment_cells k ON k.name = c.name COLLATE "C" OR k.cell_id = c.cell_id
  WHERE (k.name, k.cell_id, k.setting, k.cell_schema) IS DISTINCT FROM (c.name, c.cell_id, c.setting, c.cell_schema)
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s of the copy is not the cell of that name that this cell knows', left(named, 64)),
      HINT = 'Two databases were given one name, or a setting leads to another database.';
  END IF;
  INSERT INTO {cell}.payment_cells (name, cell_id, setting, cell_schema, directory_id, here, reason, added_by, added_at)
  SELECT c.name, c.cell_id, c.setting, c.cell_schema, learn_cells.directory_id, false, c.reason, c.added_by, c.added_at
  FROM jsonb_to_recordset(cells) AS c(name text, cell_id uuid, setting text, cell_schema text, reason text, added_by text,
    added_at timestamptz)
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
  IF later > 0 AND {cell}.server_is_settled() THEN
    UPDATE {cell}.payment_buckets b SET mine = true
    WHERE b.cell = here.name AND NOT b.mine AND NOT b.contradicted;
    learned := greatest(learned, later);
    later := 0;
  END IF;
  -- What this cell had and has no more was given away by itself, and then forgotten by a restore.
  ended := ARRAY(SELECT b.bucket FROM {cell}.payment_buckets b WHERE b.bucket = ANY (ended) AND NOT b.mine);
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
  RETURN {cell}.server_is_settled() OR EXISTS (
    SELECT FROM {cell}.payment_cell_checks k
    WHERE k.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
      AND k.timeline = {cell}.server_timeline() AND k.server_started_at = pg_postmaster_start_time());
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
  SELECT c.system_identifier || '/' || {cell}.server_timeline() || '/' || pg_postmaster_start_time()
  FROM pg_control_system() c
$$;
-- end of map_server

-- function name_cell
CREATE OR REPLACE FUNCTION {cell}.name_cell(name text, setting text, cell_schema text, reason text,
  directory_id uuid DEFAULT NULL, cells jsonb DEFAULT '[]', changes jsonb DEFAULT '[]', cell_id uuid DEFAULT NULL)
  RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  here   {cell}.payment_cells;
  known  record;
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
  FROM jsonb_to_recordset(name_cell.cells) AS c(name text, cell_id uuid, setting text, cell_schema text)
  WHERE c.name = name_cell.name;
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
  END IF;
  INSERT INTO {cell}.payment_cells (name, cell_id, setting, cell_schema, directory_id, here, reason)
  VALUES (name_cell.name, own_id, name_cell.setting, name_cell.cell_schema, chosen, true, name_cell.reason);
  IF name_cell.directory_id IS NULL THEN
    INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, reason)
    SELECT b.bucket, 1, name_cell.name, own_id, name_cell.reason FROM {cell}.payment_buckets b;
    UPDATE {cell}.payment_buckets SET cell = name_cell.name, version = 1, mine = true;
  ELSE
    UPDATE {cell}.payment_buckets SET mine = false;
    PERFORM {cell}.learn_cells(chosen, name_cell.cells, name_cell.changes);
    IF name_cell.cell_id IS NULL AND EXISTS (
      SELECT FROM {cell}.payment_buckets b WHERE b.cell IS NULL OR b.cell = name_cell.name) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'the copy of the directory leaves buckets to a cell that joins, or to no cell',
        HINT = 'Copy the whole directory of a cell that has one.';
    END IF;
  END IF;
  PERFORM {cell}.log_operator_act(CASE WHEN name_cell.cell_id IS NULL THEN 'ADD_CELL' ELSE 'REJOIN_CELL' END,
    name_cell.name, NULL, name_cell.reason, jsonb_build_object('setting', name_cell.setting, 'cell_schema',
      name_cell.cell_schema, 'directory_id', chosen, 'cell_id', own_id));
  RETURN chosen;
END
$$;
-- end of name_cell

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
          WHEN b.mine THEN 'the database of this cell may have gone back in time: until its map is compared with those of '
            'the other cells, it takes no participant that is new to it'
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
     required, closed_gates, own_buckets)
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
     FROM {cell}.payment_buckets b)
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
    own_buckets = excluded.own_buckets;
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
  SELECT b.mine INTO STRICT mine FROM {cell}.payment_buckets b
  WHERE b.bucket = of_new
  FOR SHARE;
  IF NOT mine THEN
    RAISE EXCEPTION USING ERRCODE = '40001',
      MESSAGE = 'the bucket of the participant was given to another cell meanwhile', HINT = 'Retry the transaction.';
  END IF;
  RETURN NULL;
END
$$;
-- end of refuse_foreign_participant

-- function require_durable_map
CREATE OR REPLACE FUNCTION {cell}.require_durable_map() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION USING ERRCODE = '25001', MESSAGE = 'the map of cells is changed in READ COMMITTED only',
      HINT = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED.';
  END IF;
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END
$$;
-- end of require_durable_map

-- function settle_buckets
CREATE OR REPLACE FUNCTION {cell}.settle_buckets(buckets integer[], versions integer[], cell text, reason text)
  RETURNS integer
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
  SELECT c.* INTO taker FROM {cell}.payment_cells c WHERE c.name = settle_buckets.cell COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no cell %s', coalesce(quote_literal(left(settle_buckets.cell, 64)), 'NULL')),
      HINT = 'See railhead cell list.';
  END IF;
  IF taker.here THEN
    PERFORM {cell}.require_settled_server('taking buckets');
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

-- function takes_participant
CREATE OR REPLACE FUNCTION {cell}.takes_participant(own_buckets bit, participant_id text) RETURNS boolean
LANGUAGE sql STABLE
AS $$
  SELECT $1 IS NULL OR get_bit($1, {cell}.cell_bucket($2)) = 1 AND {cell}.admits_participant($2)
$$;
-- end of takes_participant

-- The last statements lock what every enqueue reads and writes, until the commit that follows.
ALTER TABLE {cell}.payment_outbox_rules ADD COLUMN own_buckets bit(1024);
COMMENT ON COLUMN {cell}.payment_outbox_rules.own_buckets IS
  'Bit n is 1 if this cell takes the participants of bucket n (payment_buckets); null if the cell has no map.';
COMMENT ON TABLE {cell}.payment_outbox_rules IS
  'Derived by triggers from payment_outbox_settings, payment_forbidden_keys, payment_currencies, '
  'payment_closed_gates, payment_buckets, and payment_rails with the profiles in force. It is never changed by hand.';
CREATE TRIGGER payment_buckets_rules
  AFTER UPDATE ON {cell}.payment_buckets
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refresh_outbox_rules();
ALTER TABLE {cell}.payment_buckets ENABLE ALWAYS TRIGGER payment_buckets_rules;
CREATE TRIGGER participant_outbox_sequences_bucket
  AFTER INSERT ON {cell}.participant_outbox_sequences
  FOR EACH ROW EXECUTE FUNCTION {cell}.refuse_foreign_participant();
ALTER TABLE {cell}.participant_outbox_sequences ENABLE ALWAYS TRIGGER participant_outbox_sequences_bucket;

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 23, serves 13'
$$;
-- end of schema_version
