-- api_enqueue(tokens bytea[], certificates bytea[], instruction_ids, participant_ids, idempotency_keys, rail_types text[], payloads jsonb[],
--             not_befores, expires_ats timestamptz[], priorities integer[], headers jsonb[], send_onces boolean[], principals text[] [, waits boolean])
--   -> as enqueue_payment_outbox_arrays
--   enqueue_payment_outbox_arrays for callers over HTTP, each item by a token of its own
--   (SHA-256 of it, and of its certificate's public key). In the registry a digest is in
--   the place of the caller's key (api_key_digest). A key of a participant stands for one
--   instruction_id. A lone item that waits, and whose key is new, goes by
--   enqueue_payment_outbox, which costs a third of an array of one.
-- errors:  of an item those of enqueue_payment_outbox_arrays, and RH030, the token is
--          not in force, and RH031, it is not for this participant or verb. RH032 where the
--          cell allows second keys: there a key by SQL and the same key by HTTP would be
--          two instructions. 40001 where one key came in for two instructions at once.
-- reads:   payment_api_tokens, payment_api_calls, payment_outbox_keys, payment_outbox_settings, and what
--          enqueue_payment_outbox and enqueue_payment_outbox_arrays read.
-- writes:  payment_api_calls, and what enqueue_payment_outbox_arrays writes.
-- locks:   as enqueue_payment_outbox_arrays; then the index entries of payment_api_calls, each below its
--          participant's row, which is locked.
-- called by: api.
CREATE OR REPLACE FUNCTION {cell}.api_enqueue(
  tokens bytea[], certificates bytea[], instruction_ids text[], participant_ids text[], idempotency_keys text[], rail_types text[], payloads jsonb[],
  not_befores timestamptz[], expires_ats timestamptz[], priorities integer[], headers jsonb[], send_onces boolean[], principals text[], waits boolean DEFAULT false)
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  replayed boolean, error_code text, error_message text, error_hint text, differs text[], error_field text, error_rule text, error_detail text)
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
  n      CONSTANT integer := cardinality(tokens);
  token_ids text[];  -- of each item, where its token is known
  faults    jsonb[]; -- of each item
  sound     record;  -- the items without one, as arrays, and which those are
  answers   record;  -- what became of those
  fresh     integer;
  kept      integer;
  token     {cell}.payment_api_tokens; -- of a lone item
BEGIN
  IF (SELECT s.allow_second_key FROM {cell}.payment_outbox_settings s WHERE s.singleton) IS NOT FALSE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH032', MESSAGE = 'the cell allows second keys, so that nothing is taken over HTTP',
      HINT = 'A key by SQL and the same key over HTTP would be two payments: set payment_outbox_settings.allow_second_key to false.';
  END IF;
  IF (n = ALL (ARRAY[cardinality(certificates), cardinality(instruction_ids), cardinality(participant_ids), cardinality(idempotency_keys),
    cardinality(rail_types), cardinality(payloads), cardinality(not_befores), cardinality(expires_ats), cardinality(priorities),
    cardinality(headers), cardinality(send_onces), cardinality(principals)])) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the arrays of a batch must be there, and of one length';
  END IF;

  -- What is refused here, or is known, goes the way of many, which says why.
  IF n = 1 AND waits THEN
    SELECT t.* INTO token FROM {cell}.payment_api_tokens t WHERE t.token_digest = sha256(tokens[1]);
    IF {cell}.api_token_refusal(token, certificates[1], 'ENQUEUE', participant_ids[1]) IS NULL
      AND idempotency_keys[1] ~ '^[!-~]([ -~]{0,126}[!-~])?$' AND coalesce(principals[1] ~ '^[!-~]([ -~]{0,126}[!-~])?$', true)
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_api_calls c
        WHERE c.participant_id = participant_ids[1] COLLATE "C" AND c.idempotency_key = idempotency_keys[1] COLLATE "C")
    THEN
      item := 1;
      BEGIN
        SELECT e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.differs
        INTO STRICT outbox_id, sequence_id, created_at, state, replayed, differs
        FROM {cell}.enqueue_payment_outbox(instruction_ids[1], participant_ids[1], {cell}.api_key_digest(participant_ids[1], idempotency_keys[1]),
          rail_types[1], payloads[1], not_befores[1], expires_ats[1], priorities[1], headers[1], send_onces[1]) e;
        IF NOT replayed THEN -- the participant's row is ours, so that what is there was committed by others
          INSERT INTO {cell}.payment_api_calls (outbox_id, participant_id, idempotency_key, token_id, on_behalf_of)
          VALUES (outbox_id, participant_ids[1], idempotency_keys[1], token.token_id, principals[1])
          ON CONFLICT DO NOTHING;
          IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = '40001',
              MESSAGE = 'a key of this call was used for another instruction meanwhile', HINT = 'Retry the transaction.';
          END IF;
        END IF;
      EXCEPTION WHEN OTHERS THEN
        IF SQLSTATE NOT LIKE 'RH%' THEN
          RAISE;
        END IF;
        GET STACKED DIAGNOSTICS error_code = RETURNED_SQLSTATE, error_message = MESSAGE_TEXT, error_hint = PG_EXCEPTION_HINT,
          error_field = COLUMN_NAME, error_rule = CONSTRAINT_NAME, error_detail = PG_EXCEPTION_DETAIL;
        SELECT NULL, NULL, NULL, NULL, NULL, NULL INTO outbox_id, sequence_id, created_at, state, replayed, differs;
      END;
      RETURN NEXT;
      RETURN;
    END IF;
  END IF;

  SELECT array_agg(j.token_id ORDER BY j.item), array_agg(j.fault ORDER BY j.item)
  INTO token_ids, faults
  FROM (
    SELECT a.item, a.token_id, coalesce(a.fault,
      CASE WHEN known.instruction_id <> a.instruction_id OR a.first_instruction <> a.instruction_id THEN
        jsonb_build_object('code', 'RH001', 'message', 'this idempotency_key was first used for another instruction_id',
          'hint', 'Repeat a call with exactly the content of the first one. A different payment needs its own idempotency_key.',
          'field', 'idempotency_key', 'rule', 'SAME_CONTENT',
          'detail', 'The first instruction is outbox_id ' || known.outbox_id || '.') END) AS fault
    FROM (
      -- What is refused uses no key: others may have sent it.
      SELECT a.*, first_value(a.instruction_id) OVER (PARTITION BY a.participant_id, a.idempotency_key, a.fault IS NULL ORDER BY a.item) AS first_instruction
      FROM (
        SELECT a.item, a.instruction_id, a.participant_id, a.idempotency_key, t.token_id,
          CASE
            WHEN v.why = 'TOKEN' THEN jsonb_build_object('code', 'RH030', 'message', 'the token is not in force',
              'hint', 'Ask for a token: railhead token create.', 'field', 'token', 'rule', 'IN_FORCE')
            WHEN v.why IS NOT NULL THEN jsonb_build_object('code', 'RH031',
              'message', CASE v.why WHEN 'VERB' THEN 'the token is not for this act' ELSE 'the token is not for this participant' END,
              'hint', 'Ask for a token that allows it: railhead token create.', 'field', 'token', 'rule', v.why)
            WHEN a.idempotency_key IS NULL OR length(a.idempotency_key) NOT BETWEEN 1 AND 128 OR a.idempotency_key ~ '[^ -~]'
              OR a.idempotency_key <> btrim(a.idempotency_key) THEN
              jsonb_build_object('code', 'RH002', 'message', 'idempotency_key must be 1 to 128 printable ASCII characters without spaces at its ends',
                'hint', 'See docs/ingest.md for the form of an instruction.', 'field', 'idempotency_key', 'rule', 'FORM')
            WHEN length(a.principal) NOT BETWEEN 1 AND 128 OR a.principal ~ '[^ -~]' OR a.principal <> btrim(a.principal) THEN
              jsonb_build_object('code', 'RH002', 'message', 'on_behalf_of must be 1 to 128 printable ASCII characters without spaces at its ends',
                'hint', 'Leave it out where the caller acts for itself.', 'field', 'on_behalf_of', 'rule', 'FORM')
          END AS fault
        FROM unnest(tokens, certificates, instruction_ids COLLATE "C", participant_ids COLLATE "C", idempotency_keys COLLATE "C", principals COLLATE "C")
          WITH ORDINALITY AS a(token, certificate, instruction_id, participant_id, idempotency_key, principal, item)
        LEFT JOIN LATERAL (
          SELECT t.token_id, t AS row FROM {cell}.payment_api_tokens t WHERE t.token_digest = sha256(a.token) LIMIT 1) t ON true
        CROSS JOIN LATERAL (
          SELECT {cell}.api_token_refusal(t.row, a.certificate, 'ENQUEUE', a.participant_id) AS why OFFSET 0) v
        OFFSET 0) a) a
    LEFT JOIN LATERAL (
      SELECT c.outbox_id, k.instruction_id
      FROM (
        SELECT c.outbox_id FROM {cell}.payment_api_calls c
        WHERE a.fault IS NULL AND c.participant_id = a.participant_id AND c.idempotency_key = a.idempotency_key LIMIT 1) c
      CROSS JOIN LATERAL (
        SELECT k.instruction_id FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = c.outbox_id LIMIT 1) k) known ON true) j;

  SELECT array_agg(a.item ORDER BY a.item) AS item, array_agg(a.instruction_id ORDER BY a.item) AS instruction_id,
    array_agg(a.participant_id ORDER BY a.item) AS participant_id,
    array_agg({cell}.api_key_digest(a.participant_id, a.idempotency_key) ORDER BY a.item) AS key_digest,
    array_agg(a.rail_type ORDER BY a.item) AS rail_type, array_agg(a.payload ORDER BY a.item) AS payload,
    array_agg(a.not_before ORDER BY a.item) AS not_before, array_agg(a.expires_at ORDER BY a.item) AS expires_at,
    array_agg(a.priority ORDER BY a.item) AS priority, array_agg(a.headers ORDER BY a.item) AS headers,
    array_agg(a.send_once ORDER BY a.item) AS send_once
  INTO sound
  FROM unnest(instruction_ids, participant_ids, idempotency_keys, rail_types, payloads, not_befores, expires_ats, priorities, headers, send_onces, faults)
    WITH ORDINALITY AS a(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, expires_at, priority, headers, send_once, fault, item)
  WHERE a.fault IS NULL;

  IF sound.item IS NOT NULL THEN
    SELECT array_agg(e.item) AS item, array_agg(e.outbox_id) AS outbox_id, array_agg(e.replayed) AS replayed, array_agg(to_jsonb(e)) AS whole
    INTO answers
    FROM {cell}.enqueue_payment_outbox_arrays(sound.instruction_id, sound.participant_id, sound.key_digest, sound.rail_type, sound.payload,
      sound.not_before, sound.expires_at, sound.priority, sound.headers, sound.send_once, api_enqueue.waits) e;
    SELECT count(*) INTO fresh FROM unnest(answers.replayed) AS a(replayed) WHERE NOT a.replayed;
    -- The participants' rows are ours, so that what is there was committed by others.
    INSERT INTO {cell}.payment_api_calls (outbox_id, participant_id, idempotency_key, token_id, on_behalf_of)
    SELECT a.outbox_id, participant_ids[s.item], idempotency_keys[s.item], token_ids[s.item], principals[s.item]
    FROM unnest(answers.item, answers.outbox_id, answers.replayed) AS a(nth, outbox_id, replayed)
    CROSS JOIN LATERAL (SELECT sound.item[a.nth] AS item) s
    WHERE NOT a.replayed
    ORDER BY s.item
    ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS kept = ROW_COUNT;
    IF kept <> fresh THEN
      RAISE EXCEPTION USING ERRCODE = '40001',
        MESSAGE = 'a key of this call was used for another instruction meanwhile', HINT = 'Retry the transaction.';
    END IF;
    RETURN QUERY
    SELECT sound.item[e.item]::integer, e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.error_code, e.error_message, e.error_hint,
      e.differs, e.error_field, e.error_rule, e.error_detail
    FROM unnest(answers.whole) AS w(answer)
    CROSS JOIN LATERAL jsonb_to_record(w.answer) AS e(item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
      replayed boolean, error_code text, error_message text, error_hint text, differs text[], error_field text, error_rule text, error_detail text);
  END IF;
  RETURN QUERY
  SELECT f.item::integer, NULL::uuid, NULL::bigint, NULL::timestamptz, NULL::text, NULL::boolean, f.fault ->> 'code', f.fault ->> 'message',
    f.fault ->> 'hint', NULL::text[], f.fault ->> 'field', f.fault ->> 'rule', f.fault ->> 'detail'
  FROM unnest(faults) WITH ORDINALITY AS f(fault, item)
  WHERE f.fault IS NOT NULL;
END
$$;
