-- Migration 67, texts flags and principals. Binaries that need migration 13 or a newer one work on a cell that has it.

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
  PERFORM {cell}.require_fresh_snapshot();
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
      CASE WHEN coalesce(known.instruction_id, a.first_instruction) <> a.instruction_id THEN
        jsonb_build_object('code', 'RH001', 'message',
          -- Whether the earlier item will be stored is not known here.
          CASE WHEN known.instruction_id IS NULL
            THEN 'an earlier item of this call has this idempotency_key for another instruction_id'
            ELSE 'this idempotency_key was first used for another instruction_id' END,
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
    ELSIF differs IS NOT NULL THEN
      -- The first call may be an earlier item of this one. Where it is not known, nor is what differs.
      SELECT CASE WHEN c.on_behalf_of IS NOT DISTINCT FROM principals[item] COLLATE "C" THEN differs
        ELSE array_append(differs, 'on_behalf_of') END INTO differs
      FROM (
        SELECT c.on_behalf_of FROM {cell}.payment_api_calls c WHERE c.outbox_id = api_enqueue.outbox_id
        UNION ALL
        SELECT principals[f.item] FROM unnest(fresh, fresh_ids) AS f(item, outbox_id)
        WHERE f.outbox_id = api_enqueue.outbox_id
        LIMIT 1) c;
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
          AND octet_length(w.written) <= r.payload_bytes_max
          AND (r.required -> a.rail_type IS NULL OR {cell}.missing_field(r.required -> a.rail_type, w.payload) IS NULL)
          AND NOT lower(w.written COLLATE "C") LIKE ANY (r.forbidden)
          AND (w.headers = '{}' OR NOT lower(w.headers::text COLLATE "C") LIKE ANY (r.forbidden))
          AND NOT {cell}.enqueue_is_closed(r.closed_gates, a.rail_type, a.participant_id)
          AND (r.confirmed_start = pg_postmaster_start_time() AND r.confirmed_table = r.tableoid
            AND get_bit(r.own_buckets, {cell}.cell_bucket(a.participant_id)) = 1
            OR {cell}.takes_participant(r.own_buckets, a.participant_id))
          AND {cell}.payment_outbox_valid(a.instruction_id, a.participant_id, a.idempotency_key, w.payload,
            a.not_before, a.expires_at,
            d.priority, w.headers, w.written, r.payload_bytes_max, r.headers_bytes_max, r.payload_depth_max,
            (r.digits -> (w.payload ->> 'currency'))::integer, r.refuse_card_numbers)
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
      SELECT f.payload, f.headers, f.payload::text AS written,
        {cell}.payment_outbox_fingerprint(a.participant_id, a.rail_type, f.payload) AS print
      FROM (
        SELECT CASE WHEN {cell}.text_fits(a.payload) THEN a.payload END AS payload,
          CASE WHEN {cell}.text_fits(d.headers) THEN d.headers END AS headers OFFSET 0) f
      OFFSET 0) w
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

-- function event_deliveries
CREATE OR REPLACE FUNCTION {cell}.event_deliveries(endpoint_id text, worker_id text, epoch bigint, participants text[],
  types text[],
  retries_max integer, rows_max integer)
RETURNS TABLE (kind text, system_identifier text, at_xact xid8, at_outbox_id uuid, at_attempt_no integer,
  at_attempt_id uuid, in_place boolean,
  went_back boolean, behind boolean, tries integer, waiting integer, given_up integer, oldest_at timestamptz,
  notes bigint, event_type text, attempt_id uuid, outbox_id uuid, of_instruction text, of_participant text,
  sequence_id bigint, attempt_no integer, state text, created_at timestamptz, rail_type text, rail_reference text,
  rail_code text, error_code text, outcome_unknown boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  now_at CONSTANT timestamptz := clock_timestamp();
  most   integer := least(greatest(coalesce($7, 100), 0), 2000);
  asked  {cell}.payment_event_endpoints;
  place  record;
  all_   record;
BEGIN
  SELECT e.* INTO asked FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 AND e.worker_id = $2
    AND e.epoch = $3;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT p.to_xact AS xact, p.to_outbox_id AS outbox_id, p.to_attempt_no AS attempt_no, p.went_back,
    CASE WHEN NOT p.went_back THEN asked.place_attempt_id END AS attempt_id
  INTO place
  FROM {cell}.outcome_place(asked.place_xact, asked.place_outbox_id, asked.place_attempt_no, asked.place_attempt_id,
    asked.place_system) p;
  SELECT count(*)::integer AS waiting, (count(*) FILTER (WHERE NOT isfinite(r.next_at)))::integer AS given_up,
    min(r.created_at) AS oldest_at, (count(*) FILTER (WHERE NOT r.is_stuck))::integer AS active
  INTO all_
  FROM (
    SELECT w.next_at, w.created_at, bool_or(NOT isfinite(w.next_at)) OVER (PARTITION BY w.outbox_id) AS is_stuck
    FROM {cell}.payment_event_retries w
    WHERE w.endpoint_id = $1) r;
  IF all_.active >= 1000 OR all_.waiting >= 10000 THEN
    most := 0;
  END IF;

  RETURN QUERY
  WITH due AS MATERIALIZED (
    SELECT r.*
    FROM (
      -- The first event of each instruction, if it is due.
      SELECT f.outbox_id, f.next_at
      FROM (
        SELECT DISTINCT ON (w.outbox_id) w.outbox_id, w.next_at
        FROM {cell}.payment_event_retries w
        WHERE w.endpoint_id = $1
        ORDER BY w.outbox_id, w.attempt_no) f
      WHERE f.next_at <= now_at
      ORDER BY f.next_at, f.outbox_id
      LIMIT greatest(coalesce($6, 0), 0)) first
    JOIN {cell}.payment_event_retries r ON r.endpoint_id = $1 AND r.outbox_id = first.outbox_id
    WHERE NOT EXISTS (
      SELECT FROM {cell}.payment_event_retries b
      WHERE b.endpoint_id = $1 AND b.outbox_id = r.outbox_id AND b.attempt_no <= r.attempt_no AND b.next_at > now_at)
  ),
  feed AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY f.at_xact, f.at_outbox_id, f.at_attempt_no, f.attempt_no) AS no, f.*
    FROM {cell}.outcome_feed(place.xact, place.outbox_id, place.attempt_no, most, false) f
    WHERE most > 0
  ),
  newest AS (
    SELECT f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id
    FROM feed f
    ORDER BY f.no DESC
    LIMIT 1
  )
  SELECT x.kind, s.system_identifier::text, x.at_xact, x.at_outbox_id, x.at_attempt_no, x.at_attempt_id, x.in_place,
    x.went_back, x.behind, x.tries, all_.waiting, all_.given_up, all_.oldest_at, asked.notes, x.event_type,
    x.attempt_id, x.outbox_id, x.of_instruction, x.of_participant, x.sequence_id, x.attempt_no, x.state, x.created_at,
    x.rail_type, x.rail_reference, x.rail_code, x.error_code, x.outcome_unknown
  FROM pg_control_system() s
  CROSS JOIN (
    SELECT CASE WHEN t.is_told THEN 2 ELSE 1 END AS part, 0::bigint AS no, CASE WHEN t.is_told THEN 'RETRY'
      ELSE 'FORGOTTEN' END AS kind,
      NULL::xid8 AS at_xact, NULL::uuid AS at_outbox_id, NULL::integer AS at_attempt_no, NULL::uuid AS at_attempt_id,
      NULL::boolean AS in_place, NULL::boolean AS went_back, false AS behind, d.tries, d.event_type, d.attempt_id,
      d.outbox_id, coalesce(k.instruction_id, a.instruction_id) AS of_instruction,
      coalesce(k.participant_id, a.participant_id) AS of_participant,
      coalesce(k.sequence_id, a.sequence_id) AS sequence_id, d.attempt_no, a.state::text AS state,
      coalesce(a.created_at, d.created_at) AS created_at, a.rail_type, a.rail_reference, a.rail_code, a.error_code,
      {cell}.event_outcome_unknown(a.outbox_id, a.state, a.outcome_unknown) AS outcome_unknown
    FROM due d
    LEFT JOIN {cell}.payment_outbox_attempts a ON a.outbox_id = d.outbox_id AND a.attempt_no = d.attempt_no
      AND a.attempt_id = d.attempt_id
    LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = d.outbox_id
    CROSS JOIN LATERAL (
      SELECT a.attempt_id IS NOT NULL
        AND ($4 IS NULL OR coalesce(k.participant_id, a.participant_id) COLLATE "C" = ANY ($4))
        AND ($5 IS NULL OR d.event_type = ANY ($5)) AS is_told) t
    UNION ALL
    SELECT 3, f.no, 'EVENT', f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id, f.in_place, NULL,
      EXISTS (SELECT FROM {cell}.payment_event_retries b WHERE b.endpoint_id = $1 AND b.outbox_id = f.outbox_id), 0,
        f.event_type, f.attempt_id,
      f.outbox_id, f.instruction_id, f.participant_id, f.sequence_id, f.attempt_no, f.state, f.created_at, f.rail_type,
      f.rail_reference, f.rail_code, f.error_code, f.outcome_unknown
    FROM feed f
    WHERE f.event_type IS NOT NULL AND ($4 IS NULL OR f.participant_id COLLATE "C" = ANY ($4))
      AND ($5 IS NULL OR f.event_type = ANY ($5))
    UNION ALL
    SELECT 4, 0, 'END', coalesce(l.at_xact, place.xact), coalesce(l.at_outbox_id, place.outbox_id),
      coalesce(l.at_attempt_no, place.attempt_no), coalesce(l.at_attempt_id, place.attempt_id), most = 0
        OR (SELECT count(*) FROM feed f WHERE f.in_place) < most, place.went_back,
      false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM (VALUES (1)) AS one(n)
    LEFT JOIN newest l ON true) x
  ORDER BY x.part, x.no, x.outbox_id, x.attempt_no;
END
$$;
-- end of event_deliveries

-- function event_outcome_unknown
CREATE OR REPLACE FUNCTION {cell}.event_outcome_unknown(outbox_id uuid, state {cell}.outbox_attempt_state,
  outcome_unknown boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RETURN $3 OR ($2 = 'CANCELLED' OR $2 = 'FAILED' AND EXISTS (SELECT FROM {cell}.other_cell_key($1)))
    AND {cell}.payment_certainty($1, true) = 'OUTCOME_UNKNOWN';
END
$$;
-- end of event_outcome_unknown

-- function numbers_fit
CREATE OR REPLACE FUNCTION {cell}.numbers_fit(value jsonb) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  bytes  integer := 0;
  number jsonb;
BEGIN
  FOR number IN SELECT jsonb_path_query($1, 'strict $.** ? (@.type() == "number")') LOOP
    bytes := bytes + octet_length(number #>> '{}');
    IF bytes > 1048576 THEN
      RETURN false;
    END IF;
  END LOOP;
  RETURN true;
END
$$;
-- end of numbers_fit

-- function outbox_batch_item
CREATE OR REPLACE FUNCTION {cell}.outbox_batch_item(item integer, value jsonb) RETURNS {cell}.outbox_batch_item
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO, MDY'
AS $$
DECLARE
  i       {cell}.outbox_batch_item;
  unknown text;
  moment  CONSTANT text COLLATE "C" := '^[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})$';
  field   text := 'not_before';
BEGIN
  i.item := outbox_batch_item.item;
  i.error_code := 'RH002';
  i.error_hint := 'See docs/ingest.md for the form of an instruction.';
  IF jsonb_typeof(value) IS DISTINCT FROM 'object' THEN
    i.error_field := 'items';
    i.error_rule := 'OBJECT';
    i.error_message := 'an item must be a JSON object';
    RETURN i;
  END IF;
  SELECT k INTO unknown FROM jsonb_object_keys(value) k
  WHERE k NOT IN ('instruction_id', 'participant_id', 'idempotency_key', 'rail_type', 'payload',
    'not_before', 'expires_at', 'priority', 'headers', 'send_once')
  LIMIT 1;
  IF FOUND THEN
    i.error_field := left(unknown, 64);
    i.error_rule := 'UNKNOWN_FIELD';
    i.error_message := format('unknown field "%s"', left(unknown, 64));
    RETURN i;
  END IF;
  FOREACH unknown IN ARRAY ARRAY['instruction_id', 'participant_id', 'idempotency_key', 'rail_type'] LOOP
    IF jsonb_typeof(value -> unknown) NOT IN ('string', 'null') THEN
      i.error_field := unknown;
      i.error_rule := 'FORM';
      i.error_message := format('%s must be a string', unknown);
      RETURN i;
    END IF;
  END LOOP;
  i.instruction_id := value ->> 'instruction_id';
  i.participant_id := value ->> 'participant_id';
  i.idempotency_key := value ->> 'idempotency_key';
  i.rail_type := value ->> 'rail_type';
  i.payload := value -> 'payload';
  i.headers := CASE WHEN jsonb_typeof(value -> 'headers') IS DISTINCT FROM 'null'
    THEN coalesce(value -> 'headers', '{}') ELSE '{}' END;
  i.send_once := false;
  IF jsonb_typeof(value -> 'send_once') IN ('boolean', 'null') THEN
    i.send_once := coalesce((value ->> 'send_once')::boolean, false);
  ELSIF value ? 'send_once' THEN
    i.error_field := 'send_once';
    i.error_rule := 'FORM';
    i.error_message := 'send_once must be true or false';
    RETURN i;
  END IF;
  i.priority := 1;
  IF value ? 'priority' THEN
    IF jsonb_typeof(value -> 'priority') IN ('object', 'array') OR value ->> 'priority' !~ '^[012]$' THEN
      i.error_field := 'priority';
      i.error_rule := 'RANGE';
      i.error_message := 'priority must be 0 (urgent), 1 (normal) or 2 (bulk)';
      RETURN i;
    END IF;
    i.priority := value ->> 'priority';
  END IF;
  IF coalesce(value -> 'not_before', 'null') <> 'null' OR coalesce(value -> 'expires_at', 'null') <> 'null' THEN
    BEGIN
      IF jsonb_typeof(value -> 'not_before') IN ('object', 'array') OR value ->> 'not_before' !~ moment THEN
        RAISE invalid_datetime_format;
      END IF;
      i.not_before := value ->> 'not_before';
      field := 'expires_at';
      IF jsonb_typeof(value -> 'expires_at') IN ('object', 'array') OR value ->> 'expires_at' !~ moment THEN
        RAISE invalid_datetime_format;
      END IF;
      i.expires_at := value ->> 'expires_at';
    EXCEPTION WHEN data_exception THEN
      i.error_field := field;
      i.error_rule := 'MOMENT';
      i.error_message := format('%s must be a timestamp with its zone such as 2026-11-21T09:00:00Z', field);
      i.error_hint := 'Write date, T, time with seconds, and Z or an offset such as +01:00: no blank, and no word '
        'such as "tomorrow".';
      RETURN i;
    END;
  END IF;
  i.error_code := NULL;
  i.error_hint := NULL;
  RETURN i;
END
$$;
-- end of outbox_batch_item

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
    {cell}.event_outcome_unknown(e.outbox_id, e.state, e.outcome_unknown)
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
  -- No text is made of a payload whose numbers would make it too long: it is refused below.
  fits     CONSTANT boolean := {cell}.text_fits(payload);
  amount   CONSTANT text COLLATE "C" := CASE WHEN fits THEN payload ->> 'amount' END;
  written  CONSTANT text COLLATE "C" := CASE WHEN fits THEN payload::text END;
  hidden   CONSTANT text := 'operators see the reason'; -- in place of one that may name persons
  folded   text COLLATE "C";
  missing  text COLLATE "C";
  facts    record;
BEGIN
  -- One statement reads what the checks need. The depth is only computed if the text has enough brackets.
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
     WHERE c.code = CASE WHEN fits THEN payload ->> 'currency' END
       AND jsonb_typeof(payload -> 'currency') = 'string') AS digits,
    (SELECT r.required -> (rail_type COLLATE "C") FROM {cell}.payment_outbox_rules r) AS required
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
          WHEN b.mine THEN 'the server of this cell was started or promoted, or a dump was loaded into it, and it may '
            'have gone back in time: until its map was compared with those of the other cells, it takes no instruction'
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
    -- RFC 3339, in which it is shown and sent, has no later year. infinity is later, too.
    WHEN expires_at >= '10000-01-01 00:00:00+00' THEN
      field := 'expires_at'; rule := 'RANGE';
      message := 'expires_at must be a moment before the year 10000 in UTC; leave it out for an instruction that never '
        'expires';
      RETURN NEXT; RETURN;
    WHEN not_before >= expires_at THEN
      field := 'expires_at'; rule := 'AFTER_NOT_BEFORE';
      message := 'expires_at must be after not_before'; RETURN NEXT; RETURN;
    WHEN NOT facts.rail_known THEN
      code := 'RH003';
      field := 'rail_type'; rule := 'KNOWN';
      message := format('rail_type %s is not known to this cell', coalesce(quote_literal(left(rail_type, 64)), 'NULL'));
      hint := 'Known rails are in payment_rails; an operator adds one with: railhead rail apply FILE.';
      RETURN NEXT; RETURN;
    WHEN NOT fits THEN
      code := 'RH005';
      field := 'payload'; rule := 'SIZE';
      message := format('payload is more than %s bytes, with its numbers written out', facts.payload_bytes_max);
      hint := 'A number with an exponent is stored with all its digits: write such a value as a string.';
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

  -- A forbidden key can only be present if its name occurs in the text as a key.
  folded := lower(written);
  IF EXISTS (SELECT FROM {cell}.payment_forbidden_keys f WHERE strpos(folded, '"' || f.key || '":') > 0) THEN
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
    -- Callers learn the logins of operators, and not for which persons they acted. A text that is not apart in words,
    -- as one of before migration 45, may name them.
    SELECT c.scope, c.closed_by, c.closed_at, c.closed_until,
      CASE WHEN c.stops IS NULL THEN hidden ELSE {cell}.text_of_stops(jsonb_build_object(
        'left_out', c.stops -> 'left_out', 'words', (
          SELECT jsonb_agg(w.word - 'for'
            || CASE WHEN w.word ? 'whole' THEN jsonb_build_object('said', hidden) ELSE '{}' END ORDER BY w.n)
          FROM jsonb_array_elements(c.stops -> 'words') WITH ORDINALITY AS w(word, n)))) END AS close_reason,
      'YYYY-MM-DD"T"HH24:MI:SS"Z"' AS form,
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

-- function read_outbox_batch
CREATE OR REPLACE FUNCTION {cell}.read_outbox_batch(items jsonb) RETURNS {cell}.outbox_batch_item[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  batch {cell}.outbox_batch_item[];
BEGIN
  SELECT ARRAY(
    SELECT CASE
      WHEN jsonb_typeof(e.value) <> 'object' THEN {cell}.outbox_batch_item(e.n::integer, e.value)
      WHEN g.value - ARRAY['instruction_id', 'participant_id', 'idempotency_key', 'rail_type', 'payload',
          'not_before', 'expires_at', 'priority', 'headers', 'send_once'] = '{}'
        AND (i.not_before IS NULL) = (m.not_before IS NULL) AND (i.expires_at IS NULL) = (m.expires_at IS NULL)
          AND i.priority IS NOT NULL
        AND i.send_once IS NOT NULL
        AND 'string' = ALL (ARRAY[jsonb_typeof(g.value -> 'instruction_id'), jsonb_typeof(g.value -> 'participant_id'),
          jsonb_typeof(g.value -> 'idempotency_key'), jsonb_typeof(g.value -> 'rail_type')])
      THEN ROW(e.n, i.instruction_id, i.participant_id, i.idempotency_key, i.rail_type, i.payload, m.not_before,
        m.expires_at,
        i.priority, i.headers, i.send_once, NULL, NULL, NULL, NULL, NULL)::{cell}.outbox_batch_item
      ELSE {cell}.outbox_batch_item(e.n::integer, e.value)
    END
    FROM jsonb_array_elements(items) WITH ORDINALITY AS e(value, n)
    CROSS JOIN LATERAL (
      SELECT CASE WHEN pg_column_size(e.value) - coalesce(pg_column_size(e.value -> 'payload'), 0)
        - coalesce(pg_column_size(e.value -> 'headers'), 0) < 2048 THEN e.value ELSE '{}' END AS value
      OFFSET 0) g
    CROSS JOIN LATERAL (
      SELECT g.value ->> 'instruction_id' AS instruction_id, g.value ->> 'participant_id' AS participant_id,
        g.value ->> 'idempotency_key' AS idempotency_key, g.value ->> 'rail_type' AS rail_type,
          g.value -> 'payload' AS payload,
        g.value ->> 'not_before' AS not_before, g.value ->> 'expires_at' AS expires_at,
        CASE WHEN NOT g.value ? 'priority' THEN 1 WHEN g.value ->> 'priority' IN ('0', '1', '2')
          THEN (g.value ->> 'priority')::integer END AS priority,
        coalesce(nullif(g.value -> 'headers', 'null'), '{}') AS headers,
        CASE coalesce(g.value -> 'send_once', 'null') WHEN 'true' THEN true WHEN 'false' THEN false WHEN 'null'
          THEN false END AS send_once
      OFFSET 0) i
    CROSS JOIN LATERAL (
      SELECT CASE WHEN i.not_before ~ p.moment THEN i.not_before::timestamptz END AS not_before,
        CASE WHEN i.expires_at ~ p.moment THEN i.expires_at::timestamptz END AS expires_at
      FROM (SELECT '^2[0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)'
        'T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])$' AS moment) p
      OFFSET 0) m)
  INTO batch;
  RETURN batch;
END
$$;
-- end of read_outbox_batch

-- function text_fits
CREATE OR REPLACE FUNCTION {cell}.text_fits(value jsonb) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
  SELECT pg_column_size($1) < 1024 AND pg_column_compression($1) IS NULL
    OR NOT jsonb_path_exists($1, 'strict $.** ? (@.type() == "number") '
      '? (@ >= 1e40 || @ <= -1e40 || @ < 1e-40 && @ > -1e-40)')
    OR {cell}.numbers_fit($1)
$$;
-- end of text_fits

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 67, serves 13'
$$;
-- end of schema_version
