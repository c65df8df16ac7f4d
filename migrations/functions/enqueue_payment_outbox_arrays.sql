-- enqueue_payment_outbox_arrays(instruction_ids, participant_ids, idempotency_keys, rail_types text[], payloads jsonb[]
--                               [, not_befores, expires_ats timestamptz[], priorities integer[], headers jsonb[],
--                               send_onces boolean[], waits boolean])
--   -> as enqueue_payment_outbox_batch, and error_detail
--   Enqueues many instructions in the caller's transaction. The n-th element of each array belongs
--   to item n. Returns one row for each item: an invalid item has its SQLSTATE, and the others are
--   enqueued. If one of the five optional arrays is null, the default of enqueue_payment_outbox
--   applies to all items. If another open transaction enqueues for the participant of an item, the
--   item is refused with RH015 after 1 ms; with waits, the call waits instead, as
--   enqueue_payment_outbox does.
--   An item that the first check refuses is never stored by the same call, whatever opens meanwhile: it is
--   answered as a repetition, or is refused. One RH009 refuses all new items of its participant. So what a
--   caller repeats after a refusal is not behind a later item of the call that the gate would have kept too.
-- errors:  RH002 arrays of different lengths, RH005 more items than batch_items_max;
--          40001 and 40P01 as enqueue_payment_outbox; unless waits, 55P03 after 10 ms, where another
--          open transaction enqueues the same key for another participant.
-- reads:   payment_outbox_settings, payment_outbox_rules, payment_outbox_keys, and the tables of carried_call,
--          payment_outbox_violation,
--          known_call and payment_outbox_differs.
-- writes:  participant_outbox_sequences, payment_outbox_keys, payment_outbox_instructions, payment_outbox_pending.
-- locks:   the participants' rows, also those of items that a closed gate refuses: first the new
--          participants, with the rows of their buckets in share mode, then, if the call waits, the others in participant_id order; then the
--          keys' index entries in (instruction, key) order. Above READ COMMITTED first what require_current_rules locks.
-- called by: ingest, enqueue_payment_outbox_batch, api_enqueue.
--
--   If every item is new and valid, the call takes five statements, whatever the number of items:
--   read the settings, check, allocate numbers, insert keys and instructions, return the rows. Where participants
--   share an instruction_id and a key in one call, the later items of the second participant take a call of
--   enqueue_payment_outbox each: about 1 ms an item, while the rows of all participants are locked. So do items that
--   repeat a call of another cell.
--
--   The planner knows neither the number of items nor, with outdated statistics, the size of the
--   registry. LIMIT and OFFSET 0 therefore make every access to the keys a probe, for one item, of
--   the index that begins with instruction_id, and never a join with the registry or a scan of a
--   participant's history. Items are joined with each other by hash or sort, never by nested loops.
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
