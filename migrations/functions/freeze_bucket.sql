-- freeze_bucket(bucket integer, cell text, reason text) -> integer
--   Begins to move a bucket to another cell of the directory, and returns the version that the gift will
--   have. From the commit on, this cell refuses the bucket's participants (RH009). A repeated call changes
--   nothing. thaw_bucket ends the move, and give_buckets completes it once pack_bucket has packed the
--   participants and the other cell has stored them.
-- errors:  RH002 no reason, or no such bucket; RH010 this cell has no map, or the other cell is not in it;
--          RH020 another cell has the bucket, it is being moved to a third cell, the rail keys of the cells
--          differ, a participant is paused or its gate is closed, or this database may have forgotten something (require_settled_server,
--          require_confirmed_map, forgotten_calls_until); 25001 above READ COMMITTED; 55P03 after 5 s of
--          waiting for a lock.
-- reads:   payment_cells, payment_outbox_settings, payment_cell_checks, payment_outbox_suspensions,
--          payment_accepted_timelines, outbox_heartbeats, payment_paused_participants, payment_closed_gates.
-- writes:  payment_buckets, payment_bucket_moves, payment_outbox_rules by its trigger, payment_operator_log.
-- locks:   the bucket's row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.freeze_bucket(bucket integer, cell text, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
AS $$
DECLARE
  taker {cell}.payment_cells;
  held  {cell}.payment_buckets;
  known text;
  stop  record;
BEGIN
  PERFORM {cell}.require_reason(freeze_bucket.reason);
  PERFORM {cell}.require_durable_map();
  PERFORM {cell}.require_settled_server('moving buckets');
  PERFORM {cell}.require_confirmed_map('moving buckets');
  IF {cell}.forgotten_calls_until() > clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('until %s callers may repeat calls that this database has forgotten: another cell would send their payments as new ones',
        to_char({cell}.forgotten_calls_until(), 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
      HINT = 'Move the buckets after that time (repeated_within of payment_outbox_settings after the acceptance).';
  END IF;
  SELECT c.* INTO taker FROM {cell}.payment_cells c WHERE c.name = freeze_bucket.cell COLLATE "C" AND NOT c.here;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no other cell %s', coalesce(quote_literal(left(freeze_bucket.cell, 64)), 'NULL')),
      HINT = 'Add it first: railhead cell add.';
  END IF;
  IF taker.rail_key_namespace IS DISTINCT FROM (SELECT s.rail_key_namespace FROM {cell}.payment_outbox_settings s) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('cell %s derives other rail keys than this one: a rail would not recognise a payment that both send',
        taker.name),
      HINT = 'The directory was begun by an older version. Begin a new one with new cells.';
  END IF;
  SELECT b.* INTO held FROM {cell}.payment_buckets b WHERE b.bucket = freeze_bucket.bucket FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'buckets are numbers of 0 to 1023';
  END IF;
  IF NOT held.mine THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = format('this cell does not take bucket %s', held.bucket),
      HINT = 'Only the cell that takes a bucket can move it.';
  END IF;
  IF {cell}.bucket_is_leaving(held.version, held.leaving) THEN
    SELECT m.cell INTO STRICT known FROM {cell}.payment_bucket_moves m
    WHERE m.bucket = held.bucket AND m.version = held.leaving;
    IF known = taker.name THEN
      RETURN held.leaving;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('bucket %s is being moved to cell %s', held.bucket, known),
      HINT = 'Complete that move, or end it: railhead cell move --cancel.';
  END IF;
  SELECT w.participant_id, w.why INTO stop
  FROM (
    SELECT h.participant_id, 'it is paused here, and would not be there: resume it first' AS why
    FROM {cell}.payment_paused_participants h
    UNION ALL
    SELECT g.name, 'its gate is closed here, and would not be there: open it first'
    FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant') w
  WHERE {cell}.cell_bucket(w.participant_id) = held.bucket
  ORDER BY w.participant_id
  LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('participant %s of bucket %s can''t be moved now: %s', quote_literal(stop.participant_id),
        held.bucket, stop.why),
      HINT = 'Nothing was changed.';
  END IF;
  INSERT INTO {cell}.payment_bucket_moves (bucket, version, cell, reason)
  VALUES (held.bucket, held.version + 1, taker.name, freeze_bucket.reason);
  UPDATE {cell}.payment_buckets b SET leaving = b.version + 1 WHERE b.bucket = held.bucket;
  PERFORM {cell}.log_operator_act('FREEZE_BUCKET', taker.name, NULL, freeze_bucket.reason,
    jsonb_build_object('bucket', held.bucket, 'version', held.version + 1));
  RETURN held.version + 1;
END
$$;
