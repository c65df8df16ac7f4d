-- enqueue_payment_outbox(instruction_id, participant_id, idempotency_key, rail_type, payload
--                        [, not_before, expires_at, priority, headers])
--   -> (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, replayed boolean)
--   Takes one instruction, in the caller's transaction. The same key with the
--   same content returns the first instruction with replayed = true; state is
--   PENDING while it waits, else its last state that is not LATE_OUTCOME, and
--   CONFLICT while a person has to settle contradicting evidence.
-- errors:  RH001 the key was used with other content, RH002 invalid, RH003 unknown
--          rail, RH004 forbidden key in the payload, RH005 too large, RH006 already
--          expired, RH007 the instruction is enqueued under another key.
--          40001 above READ COMMITTED when key or participant were touched since the
--          snapshot: retry the transaction. 40P01 when two callers enqueue for the
--          same participants in opposite order inside longer transactions: retry.
-- reads:   payment_outbox_keys, payment_outbox_fault's and payment_outbox_state's tables.
-- writes:  participant_outbox_sequences, payment_outbox_keys, payment_outbox_pending.
-- locks:   the participant's row, then the key's index entry. No advisory locks.
-- called by: ingest.
CREATE OR REPLACE FUNCTION {cell}.enqueue_payment_outbox(
  instruction_id text, participant_id text, idempotency_key text, rail_type text, payload jsonb,
  not_before timestamptz DEFAULT NULL, expires_at timestamptz DEFAULT NULL,
  priority integer DEFAULT 1, headers jsonb DEFAULT '{}')
RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, replayed boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  print bytea := {cell}.payment_outbox_fingerprint(
    enqueue_payment_outbox.participant_id, enqueue_payment_outbox.rail_type, enqueue_payment_outbox.payload);
  known {cell}.payment_outbox_keys;
  fault record;
  other uuid;
BEGIN
  FOR look IN 1..2 LOOP
    SELECT k.* INTO known
    FROM {cell}.payment_outbox_keys k
    WHERE k.instruction_id = enqueue_payment_outbox.instruction_id
      AND k.idempotency_key = enqueue_payment_outbox.idempotency_key;
    IF FOUND THEN
      IF known.fingerprint IS DISTINCT FROM print THEN
        RAISE EXCEPTION USING
          ERRCODE = 'RH001',
          MESSAGE = 'this instruction_id and idempotency_key were first used with other content',
          DETAIL = CASE WHEN known.participant_id = enqueue_payment_outbox.participant_id
            THEN format('The first instruction is outbox_id %s, sequence_id %s.', known.outbox_id, known.sequence_id)
            ELSE 'The first instruction belongs to another participant.' END,
          HINT = 'Repeat a call with exactly the content of the first one. A different payment needs its own instruction_id.';
      END IF;
      -- The first call's commit may be here and not yet on a synchronous standby:
      -- its wait can be cut short, and then its row shows. A transaction that only
      -- reads waits for nobody, and this answer must outlive a failover too.
      PERFORM pg_logical_emit_message(true, 'railhead', 'replayed');
      RETURN QUERY SELECT known.outbox_id, known.sequence_id, known.created_at,
        {cell}.payment_outbox_state(known.outbox_id), true;
      RETURN;
    END IF;
    -- After the second look the key's row is there but this snapshot can't see it.
    EXIT WHEN look = 2;

    SELECT f.* INTO fault FROM {cell}.payment_outbox_fault(
      enqueue_payment_outbox.instruction_id, enqueue_payment_outbox.participant_id, enqueue_payment_outbox.idempotency_key,
      enqueue_payment_outbox.rail_type, enqueue_payment_outbox.payload, enqueue_payment_outbox.not_before,
      enqueue_payment_outbox.expires_at, enqueue_payment_outbox.priority, enqueue_payment_outbox.headers) f;
    IF FOUND THEN
      RAISE EXCEPTION USING ERRCODE = fault.code, MESSAGE = fault.message, HINT = fault.hint;
    END IF;

    -- The participant's row is the lock: from here until the caller's end nobody
    -- else allocates for this participant, so that the checks below hold.
    sequence_id := {cell}.bump_participant_outbox_seq(enqueue_payment_outbox.participant_id);

    SELECT k.outbox_id INTO other
    FROM {cell}.payment_outbox_keys k, {cell}.payment_outbox_settings s
    WHERE k.instruction_id = enqueue_payment_outbox.instruction_id
      AND k.participant_id = enqueue_payment_outbox.participant_id
      AND k.idempotency_key <> enqueue_payment_outbox.idempotency_key
      AND NOT s.allow_second_key
    LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION USING
        ERRCODE = 'RH007',
        MESSAGE = 'this instruction_id is already enqueued under another idempotency_key',
        DETAIL = format('The first instruction is outbox_id %s.', other),
        HINT = 'A retry repeats the first idempotency_key. A fresh key per retry is how a payment is made twice.';
    END IF;

    INSERT INTO {cell}.payment_outbox_keys AS k
      (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint)
    VALUES ({cell}.uuidv7(), enqueue_payment_outbox.instruction_id, enqueue_payment_outbox.idempotency_key,
      enqueue_payment_outbox.participant_id, enqueue_payment_outbox.sequence_id, print)
    ON CONFLICT DO NOTHING
    RETURNING k.* INTO known;
    IF FOUND THEN
      INSERT INTO {cell}.payment_outbox_pending
        (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
         next_attempt_at, created_at, priority, expires_at, headers)
      VALUES (known.outbox_id, known.instruction_id, known.participant_id, known.sequence_id, known.idempotency_key,
        enqueue_payment_outbox.rail_type, enqueue_payment_outbox.payload,
        greatest(enqueue_payment_outbox.not_before, known.created_at), known.created_at,
        enqueue_payment_outbox.priority, enqueue_payment_outbox.expires_at, enqueue_payment_outbox.headers);
      RETURN QUERY SELECT known.outbox_id, known.sequence_id, known.created_at, 'PENDING', false;
      RETURN;
    END IF;

    -- The key came in beside us: give the number back (the row is still ours)
    -- and answer as known.
    UPDATE {cell}.participant_outbox_sequences s
    SET next_sequence_id = s.next_sequence_id - 1
    WHERE s.participant_id = enqueue_payment_outbox.participant_id;
  END LOOP;
  RAISE EXCEPTION USING
    ERRCODE = '40001',
    MESSAGE = 'the same key was enqueued by a transaction that this snapshot cannot see',
    HINT = 'Retry the transaction.';
END
$$;
