-- api_enqueue(tokens bytea[], certificates bytea[], instruction_ids, participant_ids, idempotency_keys,
--             rail_types text[], payloads jsonb[],
--             not_befores, expires_ats timestamptz[], priorities integer[], headers jsonb[], send_onces boolean[],
--             principals text[] [, waits boolean])
--   -> as enqueue_payment_outbox_arrays; differs may name on_behalf_of too, which is the principal
--   Enqueues instructions, as enqueue_payment_outbox_arrays does, for callers over HTTP. Each item
--   has a token of its own, given as SHA-256 of the token and of the public key of its certificate.
--   The registry stores a digest in place of the caller's key (api_key_digest). One key of a
--   participant stands for one instruction_id, also if it was used in another cell, before the
--   participant was moved to this one. A single item that waits and has a new key is passed
--   to enqueue_payment_outbox, which costs a third of an array of one item.
-- errors:  per item those of enqueue_payment_outbox_arrays, RH030 if the token is not in force, and
--          RH031 if it is not for this participant or verb. For the call, RH032 if the cell allows
--          second keys, because a key by SQL and the same key over HTTP would then be two
--          instructions; 25001 above READ COMMITTED; 40001 if one key was used for two instructions concurrently.
-- reads:   payment_api_tokens, payment_api_calls, payment_outbox_keys, payment_outbox_settings, payment_outbox_rules,
--          participant_outbox_sequences,
--          and what enqueue_payment_outbox and enqueue_payment_outbox_arrays read; carried_key, if a
--          participant may have come from another cell.
-- writes:  payment_api_calls, and what enqueue_payment_outbox_arrays writes.
-- locks:   as enqueue_payment_outbox_arrays; then the index entries of payment_api_calls, each while
--          the row of its participant is locked.
-- called by: api.
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
