-- enqueue_payment_outbox_batch(items jsonb)
--   -> (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
--       replayed boolean, error_code text, error_message text, error_hint text, differs text[],
--       error_field text, error_rule text)
--   Takes many instructions, in the caller's transaction: a JSON array of objects
--   with the names of enqueue_payment_outbox's arguments. One row per item, in
--   the array's order, counted from 1. A bad item carries its SQLSTATE, the
--   sentence, what to do, the field and the rule; the others go in. differs is that of enqueue_payment_outbox. Numbers follow the array's order
--   within each participant.
-- errors:  RH002 items is no array, RH005 more items than batch_items_max; 40001 and
--          40P01 as enqueue_payment_outbox.
-- reads:   payment_outbox_keys, and the tables of read_outbox_batch, payment_outbox_state and payment_outbox_differs.
-- writes:  participant_outbox_sequences, payment_outbox_keys, payment_outbox_pending.
-- locks:   the participants' rows in participant_id order, also of what a closed gate
--          refuses, then the keys' index entries in (participant, instruction, key) order:
--          two batches can't deadlock.
-- called by: ingest.
--
--   The planner knows neither how many items there are nor, with old statistics,
--   how large the registry is. So it is told: LIMIT and OFFSET 0 make every look at
--   keys a probe of the index that begins with instruction_id, one item at a time,
--   never a join with the registry or a walk through a participant's history;
--   items are joined with each other by hash or by sort, never by nested loops.
CREATE OR REPLACE FUNCTION {cell}.enqueue_payment_outbox_batch(items jsonb)
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  replayed boolean, error_code text, error_message text, error_hint text, differs text[], error_field text, error_rule text)
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
  settings  {cell}.payment_outbox_settings;
  batch     {cell}.outbox_batch_item[];
  lockers   text[];    -- the participants, locked
  firsts    bigint[];  -- the first number that each of them got
  taken     bigint[];  -- and how many
  used      bigint[];  -- of them
  fresh     integer[];
  fresh_ids uuid[];
  fresh_nos bigint[];
  fresh_ats timestamptz[];
  planned   integer;
BEGIN
  -- As enqueue_payment_outbox: the commit waits until what was taken is durable.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;

  SELECT s.* INTO STRICT settings FROM {cell}.payment_outbox_settings s WHERE s.singleton;
  IF jsonb_typeof(items) IS DISTINCT FROM 'array' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'items must be a JSON array of instructions';
  END IF;
  IF jsonb_array_length(items) > settings.batch_items_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005',
      MESSAGE = format('a batch holds %s items, more than %s', jsonb_array_length(items), settings.batch_items_max),
      HINT = 'Send it in parts.';
  END IF;
  batch := {cell}.read_outbox_batch(items);

  -- Lock the participants first, in one order for everybody, and take as many
  -- numbers as there may be new instructions. What follows sees all that was
  -- committed before the locks came. Behind a closed gate a participant is locked too:
  -- then no open transaction has enqueued a key of what is refused.
  WITH wanted AS MATERIALIZED (
    SELECT b.participant_id, count(*) AS n
    FROM unnest(batch) b
    LEFT JOIN LATERAL (
      SELECT true AS known FROM {cell}.payment_outbox_keys k
      WHERE k.instruction_id = b.instruction_id AND k.idempotency_key = b.idempotency_key
      LIMIT 1) k ON true
    WHERE (b.error_code IS NULL OR b.error_code = 'RH014') AND k.known IS NULL
    GROUP BY b.participant_id
  ),
  bumped AS (
    INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id)
    SELECT w.participant_id, 1 + w.n
    FROM wanted w
    ORDER BY w.participant_id
    ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
    DO UPDATE SET next_sequence_id = s.next_sequence_id + EXCLUDED.next_sequence_id - 1
    RETURNING s.participant_id, s.next_sequence_id
  )
  SELECT array_agg(w.participant_id), array_agg(b.next_sequence_id - w.n), array_agg(w.n)
  INTO lockers, firsts, taken
  FROM bumped b
  JOIN wanted w ON w.participant_id = b.participant_id;

  FOR try IN 1..tries_max LOOP
    BEGIN
      WITH candidate AS MATERIALIZED (
        SELECT b.item, b.instruction_id, b.participant_id, b.idempotency_key, b.fingerprint,
          floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros
        FROM unnest(batch) b
        LEFT JOIN LATERAL (
          SELECT true AS known FROM {cell}.payment_outbox_keys k
          WHERE k.instruction_id = b.instruction_id AND k.idempotency_key = b.idempotency_key
          LIMIT 1) k ON true
        LEFT JOIN LATERAL (
          SELECT true AS known
          FROM (
            SELECT o.participant_id FROM {cell}.payment_outbox_keys o
            WHERE o.instruction_id = b.instruction_id OFFSET 0) o
          WHERE o.participant_id = b.participant_id AND NOT settings.allow_second_key
          LIMIT 1) o ON true
        WHERE b.error_code IS NULL AND k.known IS NULL AND o.known IS NULL
      ),
      -- The first of each key in the batch, and of each instruction.
      distinct_pair AS MATERIALIZED (
        SELECT min(c.item) AS item FROM candidate c GROUP BY c.instruction_id, c.idempotency_key
      ),
      distinct_instruction AS MATERIALIZED (
        SELECT min(c.item) AS item FROM candidate c
        GROUP BY c.participant_id, c.instruction_id, CASE WHEN settings.allow_second_key THEN c.idempotency_key END
      ),
      numbered AS MATERIALIZED (
        SELECT c.*, {cell}.uuidv7_from(c.micros) AS new_outbox_id, l.place,
          l.first + row_number() OVER (PARTITION BY l.place ORDER BY c.item) - 1 AS new_sequence_id
        FROM candidate c
        JOIN distinct_pair p ON p.item = c.item
        JOIN distinct_instruction i ON i.item = c.item
        JOIN unnest(lockers, firsts) WITH ORDINALITY AS l(participant_id, first, place) ON l.participant_id = c.participant_id
      ),
      keyed AS MATERIALIZED (
        INSERT INTO {cell}.payment_outbox_keys AS k
          (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint, rail_key)
        SELECT n.new_outbox_id, n.instruction_id, n.idempotency_key, n.participant_id, n.new_sequence_id, n.fingerprint,
          {cell}.payment_rail_key(settings.rail_key_namespace, n.participant_id, n.instruction_id, n.idempotency_key)
        FROM numbered n
        ORDER BY n.participant_id, n.instruction_id, n.idempotency_key
        ON CONFLICT ON CONSTRAINT payment_outbox_keys_once DO NOTHING
        RETURNING k.outbox_id, k.created_at
      ),
      entered AS MATERIALIZED (
        SELECT n.item, n.new_sequence_id, k.outbox_id, k.created_at
        FROM keyed k
        JOIN numbered n ON n.new_outbox_id = k.outbox_id
      ),
      waiting AS (
        INSERT INTO {cell}.payment_outbox_pending
          (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
           next_attempt_at, created_at, priority, expires_at, headers)
        SELECT e.outbox_id, b.instruction_id, b.participant_id, e.new_sequence_id, b.idempotency_key, b.rail_type, b.payload,
          greatest(b.not_before, e.created_at), e.created_at, b.priority, b.expires_at, b.headers
        FROM unnest(batch) b
        JOIN entered e ON e.item = b.item
      )
      SELECT (SELECT count(*) FROM numbered), array_agg(e.item), array_agg(e.outbox_id), array_agg(e.new_sequence_id), array_agg(e.created_at),
        ARRAY(
          SELECT coalesce(u.n, 0)
          FROM generate_subscripts(lockers, 1) AS g(place)
          LEFT JOIN (SELECT n.place, count(*) AS n FROM numbered n GROUP BY n.place) u ON u.place = g.place
          ORDER BY g.place)
      INTO planned, fresh, fresh_ids, fresh_nos, fresh_ats, used
      FROM entered e;

      -- A key that another participant's call took beside us would leave a hole
      -- in the numbers: undo this try and look again.
      IF planned <> coalesce(cardinality(fresh), 0) THEN
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

  -- Give back what repetitions within the batch, and keys that came in before the
  -- locks, did not need. The rows are still ours.
  IF used IS DISTINCT FROM taken THEN
    INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id)
    SELECT g.participant_id, 1 + g.taken - g.used
    FROM unnest(lockers, taken, used) AS g(participant_id, taken, used)
    WHERE g.taken > g.used
    ORDER BY g.participant_id
    ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
    DO UPDATE SET next_sequence_id = s.next_sequence_id - EXCLUDED.next_sequence_id + 1;
    -- Of whom nothing was ever taken, nothing is kept.
    DELETE FROM {cell}.participant_outbox_sequences s
    WHERE s.participant_id = ANY (lockers) AND s.next_sequence_id = 1;
  END IF;

  -- As enqueue_payment_outbox: an answer about rows of others waits for them to
  -- be on the standby as well.
  IF fresh IS NULL THEN
    PERFORM pg_logical_emit_message(true, 'railhead', 'replayed');
  END IF;
  RETURN QUERY
  SELECT b.item,
    CASE WHEN v.code IS NULL THEN coalesce(f.outbox_id, k.outbox_id) END,
    CASE WHEN v.code IS NULL THEN coalesce(f.sequence_id, k.sequence_id) END,
    CASE WHEN v.code IS NULL THEN coalesce(f.created_at, k.created_at) END,
    CASE WHEN f.item IS NOT NULL THEN 'PENDING' WHEN v.code IS NULL THEN {cell}.payment_outbox_state(k.outbox_id) END,
    CASE WHEN v.code IS NULL THEN f.item IS NULL END,
    v.code,
    CASE v.code
      WHEN 'RH001' THEN 'this instruction_id and idempotency_key were first used with other content'
      WHEN 'RH007' THEN 'this instruction_id is already enqueued under another idempotency_key'
      ELSE b.error_message
    END,
    CASE v.code
      WHEN 'RH001' THEN 'Repeat a call with exactly the content of the first one. A different payment needs its own instruction_id.'
      WHEN 'RH007' THEN 'A retry repeats the first idempotency_key. A fresh key per retry is how a payment is made twice.'
      ELSE b.error_hint
    END,
    CASE WHEN v.code IS NULL AND f.item IS NULL
      THEN {cell}.payment_outbox_differs(k.outbox_id, b.not_before, b.expires_at, b.priority) END,
    CASE WHEN v.code IN ('RH001', 'RH007') THEN 'idempotency_key' WHEN v.code IS NOT NULL THEN b.error_field END,
    CASE v.code WHEN 'RH001' THEN 'SAME_CONTENT' WHEN 'RH007' THEN 'ONE_KEY' ELSE CASE WHEN v.code IS NOT NULL THEN b.error_rule END END
  FROM unnest(batch) b
  LEFT JOIN unnest(fresh, fresh_ids, fresh_nos, fresh_ats) AS f(item, outbox_id, sequence_id, created_at) ON f.item = b.item
  LEFT JOIN LATERAL (
    SELECT k.outbox_id, k.sequence_id, k.created_at, k.fingerprint FROM {cell}.payment_outbox_keys k
    WHERE f.item IS NULL AND k.instruction_id = b.instruction_id AND k.idempotency_key = b.idempotency_key
    LIMIT 1) k ON true
  LEFT JOIN LATERAL (
    SELECT true AS known
    FROM (
      SELECT o.participant_id FROM {cell}.payment_outbox_keys o
      WHERE o.instruction_id = b.instruction_id OFFSET 0) o
    WHERE b.error_code = 'RH014' AND o.participant_id = b.participant_id AND NOT settings.allow_second_key
    LIMIT 1) o ON true
  CROSS JOIN LATERAL (
    SELECT CASE
      WHEN f.item IS NOT NULL THEN NULL
      -- What can't be read has no content to compare.
      WHEN b.fingerprint IS NULL THEN b.error_code
      WHEN k.outbox_id IS NOT NULL AND k.fingerprint IS DISTINCT FROM b.fingerprint THEN 'RH001'
      WHEN k.outbox_id IS NOT NULL THEN NULL
      WHEN b.error_code IS NOT NULL AND o.known IS NULL THEN b.error_code
      ELSE 'RH007'
    END AS code) v
  ORDER BY b.item;
END
$$;
