-- Migration 41, revoked and beats. Binaries that need migration 13 or a newer one work on a cell that has it.

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

-- function api_events
CREATE OR REPLACE FUNCTION {cell}.api_events(tokens bytea[], certificates bytea[], participants text[], types text[],
  since timestamptz,
  place_system text, place_xact xid8, place_outbox_id uuid, place_attempt_no integer, place_attempt_id uuid,
  rows_max integer)
RETURNS TABLE (kind text, items integer[], why text, at_xact xid8, at_outbox_id uuid, at_attempt_no integer,
  at_attempt_id uuid,
  in_place boolean, went_back boolean, event_type text, attempt_id uuid, outbox_id uuid, of_instruction text,
  of_participant text, sequence_id bigint, attempt_no integer, state text, created_at timestamptz, rail_type text,
  rail_reference text, rail_code text, error_code text, outcome_unknown boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  most  CONSTANT integer := least(greatest(coalesce(api_events.rows_max, 100), 0), 2000);
  place record;
  top   record;
  held  timestamptz;
BEGIN
  PERFORM {cell}.require_fresh_snapshot();
  IF cardinality(tokens) > 10000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('%s readers are more than 10000', cardinality(tokens)),
      HINT = 'Ask for fewer at once.';
  END IF;
  SELECT p.to_xact AS xact, p.to_outbox_id AS outbox_id, p.to_attempt_no AS attempt_no, p.went_back,
    CASE WHEN NOT p.went_back THEN place_attempt_id END AS attempt_id
  INTO place
  FROM {cell}.outcome_place(place_xact, place_outbox_id, place_attempt_no, place_attempt_id, place_system) p;
  SELECT n.* INTO top FROM {cell}.outcome_newest() n;
  IF most > 0 AND place_xact IS NULL AND since IS NOT NULL THEN
    place.xact := {cell}.outcome_feed_since(since);
  END IF;
  SELECT a.created_at INTO held
  FROM {cell}.payment_outbox_attempts a
  WHERE a.state NOT IN ('DISPATCHING', 'INQUIRING') AND a.xact >= pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY a.xact
  LIMIT 1;

  RETURN QUERY
  WITH asked AS MATERIALIZED (
    SELECT i.n::integer AS n, i.participants::text[] AS participants, i.types::text[] AS types,
      t.participants AS allowed, coalesce({cell}.api_token_refusal(t, i.certificate, 'READ', ''),
        CASE WHEN NOT i.participants::text[] COLLATE "C" <@ t.participants THEN 'PARTICIPANT' END) AS why
    FROM unnest(tokens, certificates, participants, types) WITH ORDINALITY AS i(token, certificate, participants, types,
      n)
    LEFT JOIN {cell}.payment_api_tokens t ON t.token_digest = sha256(i.token)
  ),
  feed AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY f.at_xact, f.at_outbox_id, f.at_attempt_no, f.attempt_no) AS no, f.*
    FROM {cell}.outcome_feed(place.xact, place.outbox_id, place.attempt_no, most, false) f
    WHERE most > 0
  ),
  heard AS (
    SELECT f.no, array_agg(DISTINCT a.n) AS items
    FROM asked a
    CROSS JOIN LATERAL (SELECT DISTINCT u.participant_id FROM unnest(coalesce(a.participants, a.allowed))
      AS u(participant_id)) p
    JOIN feed f ON f.participant_id = p.participant_id COLLATE "C"
    WHERE a.why IS NULL AND f.event_type IS NOT NULL AND (a.types IS NULL OR f.event_type = ANY (a.types))
    GROUP BY f.no
  ),
  newest AS (
    SELECT f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id
    FROM feed f
    ORDER BY f.no DESC
    LIMIT 1
  )
  SELECT x.kind, x.items, x.why, x.at_xact, x.at_outbox_id, x.at_attempt_no, x.at_attempt_id, x.in_place, x.went_back,
    f.event_type, f.attempt_id, f.outbox_id, f.instruction_id, f.participant_id, f.sequence_id, f.attempt_no, f.state,
    CASE x.kind WHEN 'END' THEN held ELSE f.created_at END, f.rail_type, f.rail_reference, f.rail_code, f.error_code,
      f.outcome_unknown
  FROM (
    SELECT 1 AS part, 'REFUSED' AS kind, 0::bigint AS no, array_agg(a.n ORDER BY a.n) AS items, a.why,
      NULL::xid8 AS at_xact, NULL::uuid AS at_outbox_id, NULL::integer AS at_attempt_no, NULL::uuid AS at_attempt_id,
      NULL::boolean AS in_place, NULL::boolean AS went_back
    FROM asked a
    WHERE a.why IS NOT NULL
    GROUP BY a.why
    UNION ALL
    SELECT 2, 'EVENT', h.no, h.items, NULL, f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id, f.in_place,
      NULL
    FROM heard h
    JOIN feed f ON f.no = h.no
    UNION ALL
    SELECT 3, 'END', 0, NULL, s.system_identifier::text, coalesce(l.at_xact, top.xact, place.xact),
      coalesce(l.at_outbox_id, top.outbox_id, place.outbox_id),
      coalesce(l.at_attempt_no, top.attempt_no, place.attempt_no), coalesce(l.at_attempt_id, top.attempt_id), most > 0
        AND (SELECT count(*) FROM feed f WHERE f.in_place) < most, place.went_back
    FROM pg_control_system() s
    LEFT JOIN newest l ON true) x
  LEFT JOIN feed f ON x.kind = 'EVENT' AND f.no = x.no
  ORDER BY x.part, x.no;
END
$$;
-- end of api_events

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
  IF api_list.participant_id COLLATE "C" = '' THEN
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

-- function api_token
CREATE OR REPLACE FUNCTION {cell}.api_token(token_sha256 bytea)
RETURNS TABLE (token_id text, name text, participants text[], verbs text[], expires_at timestamptz,
  requests_per_minute integer, certificate_sha256 bytea, in_force boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT {cell}.require_fresh_snapshot();
  SELECT t.token_id, t.name, t.participants, t.verbs, t.expires_at, t.requests_per_minute, t.certificate_sha256,
    {cell}.api_token_refusal(t, t.certificate_sha256, NULL, '') IS NULL
  FROM {cell}.payment_api_tokens t
  WHERE t.token_digest = sha256($1)
$$;
-- end of api_token

-- function api_token_refusal
CREATE OR REPLACE FUNCTION {cell}.api_token_refusal(token {cell}.payment_api_tokens, certificate bytea, verb text,
  participant_id text) RETURNS text
LANGUAGE sql VOLATILE
AS $$
  SELECT CASE
    WHEN ($1).token_digest IS NULL OR ($1).revoked_at IS NOT NULL OR ($1).expires_at <= clock_timestamp() THEN 'TOKEN'
    WHEN ($1).certificate_sha256 IS NOT NULL AND ($1).certificate_sha256 IS DISTINCT FROM $2 THEN 'TOKEN'
    WHEN NOT $3 COLLATE "C" = ANY (($1).verbs) THEN 'VERB'
    WHEN $4 IS NULL OR $4 COLLATE "C" <> '' AND NOT $4 COLLATE "C" = ANY (($1).participants) THEN 'PARTICIPANT'
  END
$$;
-- end of api_token_refusal

-- function beat_api
CREATE OR REPLACE FUNCTION {cell}.beat_api(name text, host text, version text, status text, activity text,
  stale_after_ms bigint, host_clock timestamptz, looked_at timestamptz, vouched boolean)
RETURNS TABLE (beats bigint, budget_version integer, claim_timeout_ms integer, start_within_ms integer,
  record_within_ms integer,
  drain_ms integer, heartbeat_stale_ms integer)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT k.beats, k.budget_version, k.claim_timeout_ms, k.start_within_ms, k.record_within_ms, k.drain_ms,
    k.heartbeat_stale_ms
  FROM {cell}.keep_heartbeat('ingest', $1, $2, $3, $4, $5, $6, $7, $8, $9) k
$$;
-- end of beat_api

-- function beat_callbacks
CREATE OR REPLACE FUNCTION {cell}.beat_callbacks(name text, host text, version text, status text, activity text,
  stale_after_ms bigint, host_clock timestamptz, looked_at timestamptz, vouched boolean)
RETURNS TABLE (beats bigint, budget_version integer, claim_timeout_ms integer, start_within_ms integer,
  record_within_ms integer,
  drain_ms integer, heartbeat_stale_ms integer)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT k.beats, k.budget_version, k.claim_timeout_ms, k.start_within_ms, k.record_within_ms, k.drain_ms,
    k.heartbeat_stale_ms
  FROM {cell}.keep_heartbeat('callback', $1, $2, $3, $4, $5, $6, $7, $8, $9) k
$$;
-- end of beat_callbacks

-- function beat_events
CREATE OR REPLACE FUNCTION {cell}.beat_events(name text, host text, version text, status text, activity text,
  stale_after_ms bigint, host_clock timestamptz, looked_at timestamptz, vouched boolean)
RETURNS TABLE (beats bigint, budget_version integer, claim_timeout_ms integer, start_within_ms integer,
  record_within_ms integer,
  drain_ms integer, heartbeat_stale_ms integer)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT k.beats, k.budget_version, k.claim_timeout_ms, k.start_within_ms, k.record_within_ms, k.drain_ms,
    k.heartbeat_stale_ms
  FROM {cell}.keep_heartbeat('events', $1, $2, $3, $4, $5, $6, $7, $8, $9) k
$$;
-- end of beat_events

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
  IF coalesce(btrim(confirm_map.reason), '') COLLATE "C" = '' AND NOT EXISTS (SELECT FROM {cell}.payment_cells c WHERE NOT c.here)
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
  IF coalesce(btrim(confirm_map.reason), '') COLLATE "C" <> '' THEN
    PERFORM {cell}.log_operator_act('CONFIRM_MAP', here.name, NULL, confirm_map.reason,
      jsonb_build_object('compared', to_jsonb(confirm_map.compared), 'gone', to_jsonb(confirm_map.gone)));
  END IF;
END
$$;
-- end of confirm_map

-- function keep_heartbeat
CREATE OR REPLACE FUNCTION {cell}.keep_heartbeat(kind text, name text, host text, version text, status text,
  activity text, stale_after_ms bigint, host_clock timestamptz, looked_at timestamptz, vouched boolean)
RETURNS TABLE (beats bigint, budget_version integer, claim_timeout_ms integer, start_within_ms integer,
  record_within_ms integer,
  drain_ms integer, heartbeat_stale_ms integer)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  known text; -- the kind of the component that has the name
BEGIN
  IF (octet_length($2) BETWEEN 1 AND 200 AND $7 BETWEEN 0 AND 86400000) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a heartbeat needs a name of 1 to 200 bytes, and a time of 0 to 86400000 ms after which it is stale';
  END IF;
  SELECT h.kind INTO known FROM {cell}.outbox_heartbeats h WHERE h.name = $2 COLLATE "C";
  IF known <> $1 COLLATE "C" THEN
    RETURN;
  ELSIF known IS NULL AND (
    SELECT count(*)
    FROM (
      SELECT FROM {cell}.outbox_heartbeats h
      WHERE h.kind = $1 COLLATE "C" AND h.last_tick_at > clock_timestamp() - interval '1 hour'
      LIMIT 1000) n) = 1000
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005',
      MESSAGE = format('1000 processes of kind %s have beaten within an hour: no other name is taken', $1),
      HINT = 'Look for what starts over and over, or beats under invented names: v_queue_health.';
  END IF;
  RETURN QUERY
  WITH budget AS MATERIALIZED (
    SELECT s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms, s.heartbeat_stale_ms
    FROM {cell}.payment_outbox_settings s WHERE s.singleton
  ),
  beat AS (
    INSERT INTO {cell}.outbox_heartbeats AS h
      (name, kind, host, version, status, activity, stale_after_ms, clock_offset_ms, server_started_at, vouched,
        budget_version)
    SELECT $2, $1, left($3, 255), left($4, 255), $5, left($6, 500), greatest($7, s.heartbeat_stale_ms),
      (extract(epoch FROM clock_timestamp() - $8) * 1000)::bigint, pg_postmaster_start_time(), $10, s.budget_version
    FROM budget s
    WHERE coalesce($9 = pg_postmaster_start_time(), true)
    ON CONFLICT ON CONSTRAINT outbox_heartbeats_pk DO UPDATE SET last_tick_at = clock_timestamp(),
      status = excluded.status, activity = excluded.activity, clock_offset_ms = excluded.clock_offset_ms,
      beats = h.beats + 1, vouched = excluded.vouched, server_started_at = excluded.server_started_at,
      stale_after_ms = excluded.stale_after_ms, budget_version = excluded.budget_version, tick_before_start = CASE
        WHEN h.vouched AND h.server_started_at <> excluded.server_started_at THEN h.last_tick_at
        ELSE h.tick_before_start END
    WHERE h.kind = excluded.kind
    RETURNING h.beats
  )
  SELECT b.beats, s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms,
    s.heartbeat_stale_ms
  FROM beat b CROSS JOIN budget s;
END
$$;
-- end of keep_heartbeat

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
    AND coalesce(btrim(note_cell_server.reason), '') COLLATE "C" = '' THEN
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
  IF coalesce(btrim(note_cell_server.reason), '') COLLATE "C" <> '' THEN
    PERFORM {cell}.log_operator_act('NOTE_CELL_SERVER', note_cell_server.cell, NULL, note_cell_server.reason,
      jsonb_build_object('server', note_cell_server.server, 'before', known.server));
  END IF;
  RETURN true;
END
$$;
-- end of note_cell_server

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
        FROM beat m) - least(b.stale_after_ms, 86400000) * interval '1 millisecond'
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

-- function require_api_token
CREATE OR REPLACE FUNCTION {cell}.require_api_token(token_sha256 bytea, certificate bytea, verb text,
  participant_id text)
RETURNS {cell}.payment_api_tokens
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  token {cell}.payment_api_tokens;
  why   text;
BEGIN
  PERFORM {cell}.require_fresh_snapshot();
  SELECT t.* INTO token FROM {cell}.payment_api_tokens t WHERE t.token_digest = sha256(require_api_token.token_sha256);
  why := {cell}.api_token_refusal(token, require_api_token.certificate, require_api_token.verb,
    require_api_token.participant_id);
  IF why = 'TOKEN' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH030', MESSAGE = 'the token is not in force',
      COLUMN = 'token', CONSTRAINT = 'IN_FORCE', HINT = 'Ask for a token: railhead token create.';
  ELSIF why IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH031',
      MESSAGE = CASE why WHEN 'VERB' THEN 'the token is not for this act'
        ELSE 'the token is not for this participant' END,
      COLUMN = 'token', CONSTRAINT = why, HINT = 'Ask for a token that allows it: railhead token create.';
  END IF;
  RETURN token;
END
$$;
-- end of require_api_token

-- function require_fresh_snapshot
CREATE OR REPLACE FUNCTION {cell}.require_fresh_snapshot() RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION USING ERRCODE = '25001', MESSAGE = 'a token is read in READ COMMITTED only',
      HINT = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED; for a process of the API, give its login that '
        'default_transaction_isolation.';
  END IF;
END
$$;
-- end of require_fresh_snapshot

-- function require_reason
CREATE OR REPLACE FUNCTION {cell}.require_reason(reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF coalesce(btrim(reason), '') COLLATE "C" = '' OR octet_length(reason) > 2000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a reason of 1 to 2000 bytes is required',
      HINT = 'Give the reason, for the reader of the log.';
  END IF;
END
$$;
-- end of require_reason

-- function resolve_payment
CREATE OR REPLACE FUNCTION {cell}.resolve_payment(
  outbox_id uuid, executed boolean, rail_reference text, evidence_date date, document text, reason text,
  rail_silent boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  letter  {cell}.payment_dead_letters;
  letter_open boolean;
  pending {cell}.payment_outbox_pending;
  put_back text;
  aside   boolean := false;
  waits   boolean := false;
  out_asked boolean := false; -- it is pending for an inquiry that an operator asked for
  silent  boolean := false;
  against integer; -- the row in which the rail reports otherwise: an execution, or another reference
  lost    boolean; -- it should be pending, and has no pending row
  last    {cell}.payment_outbox_attempts;
  o       {cell}.outbox_outcome;
  verdict text;
  number  integer;
  before  integer;
  reference text COLLATE "C" := btrim(resolve_payment.rail_reference);
  on_rail text COLLATE "C";
  since   timestamptz; -- the time than which the evidence can't be older
  forgot  timestamptz; -- the time until which forgotten sends may have begun
  other   uuid; -- the payment that already has the reference
BEGIN
  PERFORM {cell}.require_reason(resolve_payment.reason);
  IF resolve_payment.executed IS NULL OR coalesce(btrim(resolve_payment.document), '') COLLATE "C" = ''
    OR resolve_payment.evidence_date IS NULL OR resolve_payment.evidence_date > current_date + 1
    OR resolve_payment.executed AND coalesce(btrim(resolve_payment.rail_reference), '') COLLATE "C" = ''
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'evidence is incomplete: it needs executed or not, its date, the document, and the rail''s reference '
        'if executed',
      HINT = 'The document names the evidence: a statement, a ticket, a letter.';
  END IF;
  IF octet_length(resolve_payment.rail_reference) > 256 OR octet_length(resolve_payment.document) > 500 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a rail reference has at most 256 bytes, a document at most 500',
      HINT = 'Name the document, do not quote it.';
  END IF;
  PERFORM {cell}.lock_payment(resolve_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = resolve_payment.outbox_id FOR UPDATE;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = resolve_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  -- Both are read by one snapshot: a claim deletes the pending row in the statement that appends
  -- its row.
  lost := EXISTS (
    SELECT FROM (
      SELECT a.state FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) l
    WHERE l.state IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED')
      AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id));
  verdict := CASE
    WHEN resolve_payment.executed THEN 'DISPATCHED'
    WHEN last.state = 'CANCELLED' THEN 'CANCELLED'
    ELSE 'FAILED' END;
  SELECT p.* INTO pending FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id FOR UPDATE;
  IF FOUND THEN
    put_back := {cell}.put_back_after(resolve_payment.outbox_id);
    -- outcome_unknown of an older copy of the row is not reliable.
    aside := letter.reason = 'UNCLAIMABLE' AND pending.next_attempt_at = 'infinity'
      AND CASE WHEN put_back IS NULL THEN pending.outcome_unknown
        ELSE put_back IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED', 'LATE_OUTCOME') END;
    out_asked := put_back IS NULL AND {cell}.operator_asked(resolve_payment.outbox_id, last.attempt_no + 1);
    waits := resolve_payment.executed AND coalesce(last.state NOT IN ('DISPATCHING', 'INQUIRING', 'DISPATCHED'), true);
  END IF;
  letter_open := coalesce(letter.status NOT IN ('manual_replay', 'resolved'), false);
  IF NOT coalesce(
    waits OR lost
    OR resolve_payment.executed AND last.state IN ('FAILED', 'CANCELLED')
    OR letter_open AND (aside OR out_asked OR last.state = 'PARKED')
    OR letter_open AND letter.reason = 'CONFLICT' AND last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED'), false)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: it can''t be resolved like this now',
        coalesce({cell}.payment_outbox_state(resolve_payment.outbox_id), 'gone from the archive')),
      HINT = 'Resolve a dead letter with an unknown outcome or a conflict, or, with proof of execution, an '
        'instruction that is pending, FAILED or CANCELLED. If it was not executed, replay or close FAILED and '
        'EXPIRED, and replay or cancel UNCLAIMABLE of which nothing was sent.';
  END IF;

  SELECT a.attempt_no INTO before FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = resolve_payment.outbox_id AND a.state = 'DISPATCHED';
  IF resolve_payment.executed AND before < last.attempt_no THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('row %s is DISPATCHED and row %s revoked it: an instruction has at most one DISPATCHED row',
        before, last.attempt_no),
      HINT = 'Escalate its dead letter, and neither close nor replay it, so that it is not paid again. Correct the '
        'books outside Railhead.';
  END IF;

  since := {cell}.uuidv7_time(resolve_payment.outbox_id);
  IF NOT resolve_payment.executed THEN
    -- A suspension that was restored from a backup is of another start, and does not concern this
    -- one.
    IF NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s
      WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time()
        AND s.timeline = {cell}.server_timeline())
    THEN
      PERFORM {cell}.require_settled_server('evidence that a payment was not executed');
    END IF;
    forgot := {cell}.may_be_forgotten_until(resolve_payment.outbox_id);
    IF forgot > clock_timestamp() THEN -- a clock was ahead: no evidence has a future date
      forgot := clock_timestamp();
    END IF;
    since := (SELECT greatest(since, forgot, max(s.claimed_at)) FROM {cell}.sends_of(resolve_payment.outbox_id) s);
  END IF;
  IF resolve_payment.evidence_date < ((since - interval '12 hours') AT TIME ZONE 'UTC')::date THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the evidence is dated %s, and %s %s: it can''t cover that', resolve_payment.evidence_date,
        CASE WHEN resolve_payment.executed THEN 'the payment was enqueued at' WHEN since = forgot
          THEN 'a send that the database has forgotten may have begun as late as'
          ELSE 'the last send began at' END, date_trunc('second', since)),
      HINT = 'Give the date of the statement or the answer, not of the order. Find out from the rail what has become '
        'of the payment since.';
  END IF;
  IF resolve_payment.executed THEN
    on_rail := coalesce(last.rail_type, pending.rail_type,
      (SELECT k.rail_type FROM {cell}.payment_outbox_attempts k WHERE k.outbox_id = resolve_payment.outbox_id LIMIT 1));
    -- If two operators use one statement, the second sees the row of the first.
    PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.reference ' || on_rail || ' ' || reference, 0));
    SELECT a.outbox_id INTO other FROM {cell}.payment_outbox_attempts a
    WHERE a.rail_reference = reference AND a.outbox_id <> resolve_payment.outbox_id AND a.rail_type = on_rail
      AND (a.state = 'DISPATCHED' OR a.result = 'EXECUTED')
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts own
        WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference)
    LIMIT 1;
    IF other IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the rail''s reference is that of %s, which was executed: it is not evidence of %s', other,
          resolve_payment.outbox_id),
        HINT = 'Check the statement. If the rail gives one reference to several payments, add what distinguishes them '
          'there: REFERENCE/LINE.';
    END IF;
  END IF;

  IF NOT resolve_payment.executed THEN
    silent := {cell}.require_rails_word(resolve_payment.outbox_id, resolve_payment.rail_silent);
    against := (
      SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND (a.result = 'EXECUTED' OR a.state = 'DISPATCHED')
        AND a.error_code IS DISTINCT FROM 'RESOLVED');
  END IF;

  IF resolve_payment.executed THEN
    against := (
      SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND (a.result = 'EXECUTED' OR a.state = 'DISPATCHED')
        AND a.error_code IS DISTINCT FROM 'RESOLVED' AND a.rail_reference <> reference AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts own
          WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference));
  END IF;
  IF last.state::text IS DISTINCT FROM verdict THEN
    SELECT coalesce(max(a.attempt_no), 0) + 1 INTO number FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id;
    o.outbox_id := resolve_payment.outbox_id;
    o.error_code := 'RESOLVED';
    o.error_message := format('%s%s (%s, %s)', CASE
      WHEN against IS NOT NULL THEN format('against the rail''s word (row %s): ', against)
      WHEN silent THEN 'without the rail''s word: ' END,
      resolve_payment.reason, resolve_payment.document, resolve_payment.evidence_date);
    -- The column holds 2000 bytes, and a character has at most 4. The log has the full text.
    IF octet_length(o.error_message) > 2000 THEN
      o.error_message := left(o.error_message, 500);
    END IF;
    PERFORM {cell}.append_outbox_row(o, {cell}.uuidv7(), number, verdict, NULL, false,
      CASE WHEN resolve_payment.executed THEN 'EXECUTED' ELSE 'REFUSED' END, reference);
  END IF;
  IF aside OR waits OR out_asked OR put_back IS NOT NULL THEN
    DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id;
  END IF;
  IF verdict <> 'FAILED' THEN
    PERFORM {cell}.close_letter(resolve_payment.outbox_id, 'resolved', resolve_payment.reason);
  ELSE
    PERFORM {cell}.open_dead_letters(ARRAY[resolve_payment.outbox_id], ARRAY['FAILED'], ARRAY['RESOLVED']);
    UPDATE {cell}.payment_dead_letters d
    SET reason = 'FAILED', error_code = 'RESOLVED', status = 'acknowledged', note = resolve_payment.reason,
      actor = session_user, updated_at = clock_timestamp()
    WHERE d.outbox_id = resolve_payment.outbox_id;
  END IF;
  PERFORM {cell}.log_operator_act('RESOLVE', {cell}.instruction_of(resolve_payment.outbox_id),
    resolve_payment.outbox_id, resolve_payment.reason,
    jsonb_build_object('executed', resolve_payment.executed, 'rail_reference', reference,
      'evidence_date', resolve_payment.evidence_date, 'document', resolve_payment.document, 'rail_silent', silent,
        'against_row', against,
      'letter', letter.reason, 'was', last.state));
  RETURN verdict;
END
$$;
-- end of resolve_payment

-- view v_lanes
CREATE OR REPLACE VIEW {cell}.v_lanes AS
SELECT l.rail_type, h.name AS worker_id, h.host, l.profile_version, l.slots, l.calls, l.breaker,
  CASE WHEN l.open_ms > 0 THEN h.last_tick_at + make_interval(secs => l.open_ms / 1000.0) END AS breaker_open_until,
  l.rate, l.suspended,
  CASE WHEN l.stopped_ms > 0 THEN h.last_tick_at + make_interval(secs => l.stopped_ms / 1000.0) END AS stopped_until,
  h.last_tick_at AS said_at
FROM {cell}.outbox_heartbeats h
CROSS JOIN LATERAL jsonb_to_recordset(h.lanes) AS l (
  rail_type text, profile_version integer, slots integer, calls integer, breaker text, open_ms bigint,
    rate double precision,
  suspended text, stopped_ms bigint)
WHERE h.kind = 'relayer' AND h.status IN ('running', 'suspended')
  AND h.last_tick_at > clock_timestamp() - make_interval(secs => least(h.stale_after_ms, 86400000) / 1000.0);
COMMENT ON VIEW {cell}.v_lanes IS
  'The rails that each running relayer served at its last heartbeat, and their state. A rail without a row is '
  'served by no relayer.';
-- end of v_lanes

-- view v_queue_health
CREATE OR REPLACE VIEW {cell}.v_queue_health AS
WITH backlog AS MATERIALIZED (
  SELECT b.rail_type, b.state, b.count, b.at_least
  FROM {cell}.v_outbox_backlog b
),
rail AS MATERIALIZED (
  SELECT r.rail_type, r.paused OR e.paused AS paused,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state NOT IN ('DISPATCHING', 'INQUIRING')), 0)::bigint AS pending,
    coalesce((SELECT bool_or(b.at_least) FROM backlog b WHERE b.rail_type = r.rail_type), false) AS at_least,
    CASE WHEN d.due_at <= clock_timestamp() THEN clock_timestamp() - d.due_at END AS oldest_due_age,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state IN ('DISPATCHING', 'INQUIRING')), 0)::bigint AS in_flight,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state IN ('ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN')), 0)::bigint
      + (SELECT count(*)
        FROM (
          SELECT d.outbox_id FROM {cell}.payment_dead_letters d
          WHERE d.rail_type = r.rail_type AND d.reason = 'OUTCOME_UNKNOWN' AND d.status NOT IN ('manual_replay', 'resolved')
          LIMIT 100000) u
        -- An instruction that is pending for an inquiry is counted in the backlog.
        WHERE (SELECT true FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = u.outbox_id
          LIMIT 1) IS NULL) AS outcome_unknown,
    coalesce((SELECT sum(s.count) FROM {cell}.v_dead_letter_summary s WHERE s.rail_type = r.rail_type),
      0)::bigint AS dead_letters
  FROM {cell}.payment_rails r
  CROSS JOIN (SELECT g.paused FROM {cell}.payment_rails g WHERE g.rail_type = '*') e
  CROSS JOIN LATERAL (
    SELECT min(f.next_attempt_at) AS due_at
    FROM (VALUES (0::smallint), (1), (2)) AS v(priority)
    CROSS JOIN LATERAL (
      SELECT p.next_attempt_at
      FROM {cell}.payment_outbox_pending p
      WHERE p.rail_type = r.rail_type AND p.priority = v.priority
      ORDER BY p.next_attempt_at
      LIMIT 1) f) d
  WHERE r.rail_type <> '*'
),
component AS MATERIALIZED (
  SELECT h.name, h.kind, h.host, h.version, h.started_at, h.last_tick_at, h.clock_offset_ms,
    concat_ws(', ', h.status, nullif(h.activity, '')) AS activity,
    clock_timestamp() - h.last_tick_at AS age,
    CASE
      WHEN h.status = 'stopped' THEN 'stopped'
      WHEN h.last_tick_at <= clock_timestamp() - least(h.stale_after_ms, 86400000) * interval '1 millisecond' THEN 'stale'
      WHEN h.last_tick_at <= clock_timestamp() - least(h.stale_after_ms, 86400000) * interval '1 millisecond' / 2 THEN 'warning'
      ELSE 'fresh'
    END AS status
  FROM {cell}.outbox_heartbeats h
  WHERE h.last_tick_at > clock_timestamp() - CASE h.status WHEN 'stopped' THEN interval '1 hour'
    ELSE interval '1 day' END
)
SELECT 'cell' AS scope, '*' AS name,
  CASE WHEN bool_or(r.paused) THEN 'paused' WHEN count(*) = 0 THEN 'no rails' ELSE 'running' END AS status,
  sum(r.pending)::bigint AS pending, bool_or(r.at_least) AS at_least, max(r.oldest_due_age) AS oldest_due_age,
  sum(r.in_flight)::bigint AS in_flight, (SELECT clock_timestamp() - min(c.claimed_at)
    FROM {cell}.payment_outbox_claims c) AS oldest_claim_age,
  sum(r.outcome_unknown)::bigint AS outcome_unknown,
  (SELECT coalesce(sum(s.count), 0) FROM {cell}.v_dead_letter_summary s)::bigint AS dead_letters,
  NULL::text AS kind, NULL::text AS host, NULL::text AS version, NULL::timestamptz AS started_at,
  NULL::timestamptz AS last_beat_at, NULL::interval AS beat_age, NULL::bigint AS clock_offset_ms, NULL::text AS activity
FROM rail r
UNION ALL
SELECT 'rail', r.rail_type, CASE WHEN r.paused THEN 'paused' ELSE 'running' END,
  r.pending, r.at_least, r.oldest_due_age, r.in_flight, NULL, r.outcome_unknown, r.dead_letters,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM rail r
UNION ALL
SELECT 'component', c.name, c.status, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  c.kind, c.host, c.version, c.started_at, c.last_tick_at, c.age, c.clock_offset_ms, c.activity
FROM component c;
COMMENT ON VIEW {cell}.v_queue_health IS
  'The overview for an operator on call: one row for the cell, one for each rail, and one for each component with '
  'a heartbeat in the last day (in the last hour, if it stopped in order). A component is stale after its own '
  'stale_after_ms, and has the status warning after half of it.';
-- end of v_queue_health

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 41, serves 13'
$$;
-- end of schema_version
