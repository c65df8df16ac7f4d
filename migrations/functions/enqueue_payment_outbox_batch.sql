-- enqueue_payment_outbox_batch(items jsonb)
--   -> (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
--       replayed boolean, error_code text, error_message text)
--   Takes many instructions, in the caller's transaction: a JSON array of objects
--   with the names of enqueue_payment_outbox's arguments. One row per item, in
--   the array's order, counted from 1. A bad item carries its SQLSTATE and the
--   sentence; the others go in. Numbers follow the array's order within each
--   participant.
-- errors:  RH002 items is no array, RH005 more items than batch_items_max; 40001 and
--          40P01 as enqueue_payment_outbox.
-- reads:   payment_outbox_keys, outbox_batch_item's and payment_outbox_state's tables.
-- writes:  participant_outbox_sequences, payment_outbox_keys, payment_outbox_pending.
-- locks:   the participants' rows in participant_id order, then the keys' index
--          entries in (participant, instruction, key) order: two batches can't deadlock.
-- called by: ingest.
CREATE OR REPLACE FUNCTION {cell}.enqueue_payment_outbox_batch(items jsonb)
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  replayed boolean, error_code text, error_message text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  tries_max CONSTANT integer := 3;
  batch     {cell}.outbox_batch_item[];
  settings  {cell}.payment_outbox_settings;
  fresh     integer[] := '{}';
  planned   integer;
BEGIN
  SELECT s.* INTO STRICT settings FROM {cell}.payment_outbox_settings s;
  IF jsonb_typeof(items) IS DISTINCT FROM 'array' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'items must be a JSON array of instructions';
  END IF;
  IF jsonb_array_length(items) > settings.batch_items_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005',
      MESSAGE = format('a batch holds %s items, more than %s', jsonb_array_length(items), settings.batch_items_max),
      HINT = 'Send it in parts.';
  END IF;
  batch := ARRAY(
    SELECT {cell}.outbox_batch_item(e.n::integer, e.value)
    FROM jsonb_array_elements(items) WITH ORDINALITY AS e(value, n)
    ORDER BY e.n);

  FOR try IN 1..tries_max LOOP
    -- Lock the participants first, in one order for everybody. What follows sees
    -- all that was committed before the locks came.
    INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id)
    SELECT DISTINCT b.participant_id, 1
    FROM unnest(batch) b
    WHERE b.error_code IS NULL
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_keys k
        WHERE k.instruction_id = b.instruction_id AND k.idempotency_key = b.idempotency_key)
    ORDER BY 1
    ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
    DO UPDATE SET next_sequence_id = s.next_sequence_id;

    BEGIN
      WITH candidate AS MATERIALIZED (
        SELECT b.*,
          row_number() OVER (PARTITION BY b.instruction_id, b.idempotency_key ORDER BY b.item) AS nth_of_pair,
          row_number() OVER (PARTITION BY b.participant_id, b.instruction_id ORDER BY b.item) AS nth_of_instruction
        FROM unnest(batch) b
        WHERE b.error_code IS NULL
          AND NOT EXISTS (
            SELECT FROM {cell}.payment_outbox_keys k
            WHERE k.instruction_id = b.instruction_id AND k.idempotency_key = b.idempotency_key)
          AND (settings.allow_second_key OR NOT EXISTS (
            SELECT FROM {cell}.payment_outbox_keys k
            WHERE k.instruction_id = b.instruction_id AND k.participant_id = b.participant_id))
      ),
      numbered AS MATERIALIZED (
        SELECT c.*, {cell}.uuidv7() AS new_outbox_id,
          s.next_sequence_id + row_number() OVER (PARTITION BY c.participant_id ORDER BY c.item) - 1 AS new_sequence_id
        FROM candidate c
        JOIN {cell}.participant_outbox_sequences s ON s.participant_id = c.participant_id
        WHERE c.nth_of_pair = 1 AND (settings.allow_second_key OR c.nth_of_instruction = 1)
      ),
      keyed AS (
        INSERT INTO {cell}.payment_outbox_keys AS k
          (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint)
        SELECT n.new_outbox_id, n.instruction_id, n.idempotency_key, n.participant_id, n.new_sequence_id, n.fingerprint
        FROM numbered n
        ORDER BY n.participant_id, n.instruction_id, n.idempotency_key
        ON CONFLICT DO NOTHING
        RETURNING k.outbox_id, k.created_at
      ),
      waiting AS (
        INSERT INTO {cell}.payment_outbox_pending
          (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
           next_attempt_at, created_at, priority, expires_at, headers)
        SELECT k.outbox_id, n.instruction_id, n.participant_id, n.new_sequence_id, n.idempotency_key, n.rail_type, n.payload,
          greatest(n.not_before, k.created_at), k.created_at, n.priority, n.expires_at, n.headers
        FROM keyed k
        JOIN numbered n ON n.new_outbox_id = k.outbox_id
      ),
      bumped AS (
        UPDATE {cell}.participant_outbox_sequences s
        SET next_sequence_id = s.next_sequence_id + c.taken
        FROM (SELECT n.participant_id, count(*) AS taken FROM numbered n GROUP BY n.participant_id) c
        WHERE s.participant_id = c.participant_id
      )
      SELECT count(*), coalesce(array_agg(n.item) FILTER (WHERE k.outbox_id IS NOT NULL), '{}')
      INTO planned, fresh
      FROM numbered n
      LEFT JOIN keyed k ON k.outbox_id = n.new_outbox_id;

      -- A key that another participant's call took beside us would leave a hole
      -- in the numbers: undo this try and look again.
      IF planned <> cardinality(fresh) THEN
        RAISE EXCEPTION USING ERRCODE = '40001',
          MESSAGE = 'a key of this batch was enqueued beside it', HINT = 'Retry the transaction.';
      END IF;
      EXIT;
    EXCEPTION WHEN serialization_failure THEN
      IF try = tries_max THEN
        RAISE;
      END IF;
    END;
  END LOOP;

  -- As enqueue_payment_outbox: an answer about rows of others waits for them to
  -- be on the standby as well.
  IF cardinality(fresh) = 0 THEN
    PERFORM pg_logical_emit_message(true, 'railhead', 'replayed');
  END IF;
  RETURN QUERY
  SELECT b.item,
    CASE WHEN v.code IS NULL THEN k.outbox_id END,
    CASE WHEN v.code IS NULL THEN k.sequence_id END,
    CASE WHEN v.code IS NULL THEN k.created_at END,
    CASE WHEN v.code IS NULL THEN
      CASE WHEN b.item = ANY (fresh) THEN 'PENDING' ELSE {cell}.payment_outbox_state(k.outbox_id) END END,
    CASE WHEN v.code IS NULL THEN b.item <> ALL (fresh) END,
    v.code,
    CASE v.code
      WHEN 'RH001' THEN 'this instruction_id and idempotency_key were first used with other content'
      WHEN 'RH007' THEN 'this instruction_id is already enqueued under another idempotency_key'
      ELSE b.error_message
    END
  FROM unnest(batch) b
  LEFT JOIN {cell}.payment_outbox_keys k
    ON k.instruction_id = b.instruction_id AND k.idempotency_key = b.idempotency_key
  CROSS JOIN LATERAL (
    SELECT CASE
      WHEN k.outbox_id IS NOT NULL AND k.fingerprint IS DISTINCT FROM b.fingerprint THEN 'RH001'
      WHEN k.outbox_id IS NOT NULL THEN NULL
      WHEN b.error_code IS NOT NULL THEN b.error_code
      ELSE 'RH007'
    END AS code) v
  ORDER BY b.item;
END
$$;
