-- enqueue_payment_outbox(instruction_id, participant_id, idempotency_key, rail_type, payload
--                        [, not_before, expires_at, priority, headers, send_once])
--   -> (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, replayed boolean, differs text[])
--   Enqueues one instruction in the caller's transaction. The commit of that transaction waits
--   until the instruction is durable, even if synchronous_commit is off or local, unless a function of the
--   caller's own, with SET synchronous_commit = off, is around the call: what is set here ends with that
--   function. A repeated call, with the same key and the same content, returns the first instruction with
--   replayed = true.
--   differs then names those of not_before, expires_at, priority and send_once that had another
--   value in the first call; the first values stay in force (payment_outbox_differs). state is that
--   of payment_outbox_state, or ELSEWHERE if the first call was made in another cell, before the participant
--   was moved to this one: the payment is in that cell, and differs is null. It is ELSEWHERE, too, where another cell
--   has the key as well, and what this one has of it was not executed (known_call).
-- errors:  RH001 the key was used with other content, RH002 invalid, RH003 unknown
--          rail, RH004 forbidden key in payload or headers, RH005 too large, RH006 already
--          expired, RH007 the instruction is enqueued under another key, RH008 a card
--          number in the payload, RH009 the participant belongs to another cell, RH014 an operator has
--          closed enqueue. COLUMN is the invalid field and CONSTRAINT the name of the violated rule;
--          docs/ingest.md lists them. 40001 above READ COMMITTED if key, participant or
--          what enqueue goes by (payment_outbox_rules: gates, rails, settings, buckets) have changed since the
--          snapshot, and in READ COMMITTED if the participant is
--          new and was given to another cell meanwhile: retry the transaction. 40P01 if two callers enqueue for the same participants in
--          opposite order inside longer transactions: retry.
-- reads:   payment_outbox_rules, payment_outbox_keys, the tables that payment_outbox_violation, known_call,
--          payment_outbox_differs and carried_call read.
-- writes:  participant_outbox_sequences, payment_outbox_keys, payment_outbox_instructions, payment_outbox_pending.
-- locks:   the participant's row; if it is new, its bucket's row in share mode; then the key's index
--          entry. No advisory locks. Above READ COMMITTED first what require_current_rules locks.
-- called by: ingest, enqueue_payment_outbox_arrays, api_enqueue.
--
--   A new and valid instruction takes five statements, and the trigger that notifies relayers: read
--   everything that the checks need, allocate the number of the participant, insert the key, the
--   instruction and the pending row. No plan may scan a table or the history of a participant, even
--   with outdated statistics. This is the reason for the settings, and for OFFSET 0, which leaves
--   the planner only the index that begins with instruction_id. A participant that was moved to this
--   cell (moved_in) takes one more: its key is looked for among those that came with it, once its row is
--   locked. So no call that has checked the map before the participant left, and goes on after it came
--   back, misses a key of the other cell.
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
      AND octet_length(w.written) <= r.payload_bytes_max
      AND (r.required -> (rail_type COLLATE "C") IS NULL OR {cell}.missing_field(r.required -> (rail_type COLLATE "C"),
        w.payload) IS NULL)
      AND NOT lower(w.written COLLATE "C") LIKE ANY (r.forbidden)
      AND (w.headers = '{}' OR NOT lower(w.headers::text COLLATE "C") LIKE ANY (r.forbidden))
      AND NOT {cell}.enqueue_is_closed(r.closed_gates, rail_type, participant_id)
      AND (r.confirmed_start = pg_postmaster_start_time() AND r.confirmed_table = r.tableoid
        AND get_bit(r.own_buckets, {cell}.cell_bucket(participant_id)) = 1
        OR {cell}.takes_participant(r.own_buckets, participant_id))
      AND {cell}.payment_outbox_valid(instruction_id, participant_id, idempotency_key, w.payload, not_before, expires_at,
        priority, w.headers,
        w.written, r.payload_bytes_max, r.headers_bytes_max, r.payload_depth_max,
        (r.digits -> (w.payload ->> 'currency'))::integer, r.refuse_card_numbers) AS valid
    INTO STRICT seen
    FROM (
      SELECT f.payload, f.headers, f.payload::text AS written,
        {cell}.payment_outbox_fingerprint(participant_id, rail_type, f.payload) AS print
      FROM (
        SELECT CASE WHEN {cell}.text_fits(payload) THEN payload END AS payload,
          CASE WHEN {cell}.text_fits(headers) THEN headers END AS headers OFFSET 0) f
      OFFSET 0) w
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
