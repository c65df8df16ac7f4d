-- give_buckets(buckets integer[], cell text, reason text) -> integer
--   Gives buckets of this cell to another cell of its directory, and returns how many. From the commit
--   on, this cell refuses their participants (RH009), and no cell takes them until the other one has
--   learned the change (learn_cells). Only the cell that has a bucket can give it, so that the
--   versions of a bucket are one chain. A bucket whose participants were packed (pack_bucket) is given with the
--   digest of what was packed, without which the other cell does not take it.
-- errors:  RH002 no reason, or a bucket outside of 0 to 1023; RH010 this cell has no map, or the other
--          cell is not in it; RH020 another cell has one of the buckets, cells contradict each other
--          about one, participants of them have enqueued here and were not packed, a participant is paused or its gate
--          is closed, which would not hold in the other cell, this database may have forgotten
--          participants (require_settled_server, require_confirmed_map) or calls that callers may still
--          repeat (forgotten_calls_until), or the rail keys of the cells differ; 25001 above READ
--          COMMITTED; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_cells, payment_outbox_settings, payment_bucket_moves, what require_settled_server, require_confirmed_map and
--          forgotten_calls_until read; payment_paused_participants, payment_closed_gates;
--          participant_outbox_sequences, every row once.
-- writes:  payment_cell_changes, payment_buckets, payment_outbox_rules by its trigger, payment_operator_log.
-- locks:   the rows of the buckets, for which only the first instructions of their participants wait.
-- called by: operator.
CREATE OR REPLACE FUNCTION {cell}.give_buckets(buckets integer[], cell text, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
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
  PERFORM {cell}.require_confirmed_map('giving buckets away');
  IF {cell}.forgotten_calls_until() > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('until %s callers may repeat calls that this database has forgotten: their participants are not known here, and another cell would send their payments as new ones',
        to_char({cell}.forgotten_calls_until(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
      HINT = 'Give the buckets away after that time (repeated_within of payment_outbox_settings after the acceptance).';
  END IF;
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
  IF taker.rail_key_namespace IS DISTINCT FROM (SELECT s.rail_key_namespace FROM {cell}.payment_outbox_settings s) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s derives other rail keys than this one: a rail would not recognise a payment that both send',
        taker.name),
      HINT = 'The directory was begun by an older version. Begin a new one with new cells.';
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
  SELECT m.bucket, m.cell INTO held
  FROM {cell}.payment_buckets b
  JOIN {cell}.payment_bucket_moves m ON m.bucket = b.bucket AND m.version = b.leaving
  WHERE b.bucket = ANY (given) AND {cell}.bucket_is_leaving(b.version, b.leaving)
    AND (m.digest IS NULL OR m.cell <> taker.name)
  ORDER BY m.bucket
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('bucket %s is being moved to cell %s, and is not given before', held.bucket, held.cell),
      HINT = 'Complete the move, or end it: railhead cell move --cancel.';
  END IF;
  -- A gate may be closed for a participant that never enqueued here: it is of a cell that was lost (require_gate).
  SELECT w.participant_id, w.why, b.bucket, {cell}.bucket_is_leaving(b.version, b.leaving) AS moves INTO held
  FROM (
    SELECT h.participant_id, 'it is paused here, and would not be there: resume it first' AS why
    FROM {cell}.payment_paused_participants h
    UNION ALL
    SELECT g.name, 'its gate is closed here, and would not be there: open it first'
    FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant') w
  JOIN {cell}.payment_buckets b ON b.bucket = {cell}.cell_bucket(w.participant_id)
  WHERE b.bucket = ANY (given)
  ORDER BY w.participant_id
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('participant %s of bucket %s can''t be moved now: %s', quote_literal(held.participant_id),
        held.bucket, held.why),
      HINT = CASE WHEN held.moves
        THEN 'Repeat railhead cell move once that is so, or end the move: railhead cell move --cancel.'
        ELSE 'Nothing was changed.' END;
  END IF;
  -- A new statement: it sees every participant whose transaction the locks have waited for.
  SELECT count(*) AS n, count(DISTINCT p.bucket) AS buckets, min(p.bucket) AS first INTO held
  FROM (SELECT {cell}.cell_bucket(s.participant_id) AS bucket FROM {cell}.participant_outbox_sequences s OFFSET 0) p
  WHERE p.bucket = ANY (given);
  IF held.n > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('%s participants of %s of the buckets, such as bucket %s, have payments in this cell', held.n,
        held.buckets, held.first),
      HINT = 'railhead cell move moves their participants; the payments stay here.';
  END IF;
  INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, digest, reason)
  SELECT b.bucket, b.version + 1, taker.name, taker.cell_id, coalesce(m.digest, ''), give_buckets.reason
  FROM {cell}.payment_buckets b
  LEFT JOIN {cell}.payment_bucket_moves m ON m.bucket = b.bucket AND m.version = b.version + 1 AND b.leaving = m.version
  WHERE b.bucket = ANY (given);
  UPDATE {cell}.payment_buckets b SET cell = taker.name, version = b.version + 1, mine = false
  WHERE b.bucket = ANY (given);
  PERFORM {cell}.log_operator_act('GIVE_BUCKETS', taker.name, NULL, give_buckets.reason,
    jsonb_build_object('buckets', to_jsonb(given)));
  RETURN cardinality(given);
END
$$;
