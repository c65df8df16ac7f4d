-- settle_buckets(buckets integer[], versions integer[], cell text, reason text, servers jsonb) -> integer
--   Says which cell takes buckets about which the maps of cells contradict each other, and returns how
--   many were settled by this call. It appends a change with the given version of each bucket, which
--   must be two higher than the highest that any cell knows, and replaces all before it: the version between is that of
--   a gift of which only a lost cell may know, and a cell that knows more than was read refuses. It has to be called in
--   every cell of the directory with the same arguments, first in the cell that has them, if it can be reached,
--   and last in the one that is to take them: until then no cell takes them. servers is as in learn_cells, and has the cells that are left out, too,
--   with the server that this cell knows: one that came back meanwhile was compared, and is on another. A
--   repeated call changes nothing.
-- errors:  RH002 no reason, or arrays that are null, of different length, or with a bucket outside of
--          0 to 1023; RH010 this cell has no map, or does not know the cell; RH020 this cell
--          knows a version that is as high, or is one below, or takes a bucket that another cell is to have, or it is to take the buckets and its database may have forgotten
--          something (require_settled_server, require_confirmed_map), or a map was read on another server than the
--          known one (require_cell_servers); 25001 above READ COMMITTED; 55P03 after 5 s of
--          waiting for a lock.
-- reads:   payment_cells, what require_settled_server, require_confirmed_map and require_cell_servers read.
-- writes:  payment_cell_changes, payment_buckets, payment_outbox_rules by its trigger, payment_operator_log.
-- locks:   payment_cell_servers, against a note_cell_server that is under way; the rows of the buckets, for which only the first instructions of their participants wait.
-- called by: operator.
CREATE OR REPLACE FUNCTION {cell}.settle_buckets(buckets integer[], versions integer[], cell text, reason text,
  servers jsonb) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  taker {cell}.payment_cells;
  wrong integer;
  done  integer;
BEGIN
  PERFORM {cell}.require_reason(settle_buckets.reason);
  PERFORM {cell}.require_durable_map();
  IF (cardinality(buckets) > 0 AND cardinality(buckets) = cardinality(versions) AND array_position(versions, NULL) IS NULL
    AND 0 <= ALL (buckets) AND 1023 >= ALL (buckets)
    AND (SELECT count(DISTINCT g) FROM unnest(buckets) AS g) = cardinality(buckets)) IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'buckets are different numbers of 0 to 1023, and each has a version';
  END IF;
  IF settle_buckets.servers IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'servers must not be null';
  END IF;
  PERFORM {cell}.require_cell_servers(settle_buckets.servers);
  SELECT c.* INTO taker FROM {cell}.payment_cells c WHERE c.name = settle_buckets.cell COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010',
      MESSAGE = format('this cell knows no cell %s', coalesce(quote_literal(left(settle_buckets.cell, 64)), 'NULL')),
      HINT = 'See railhead cell list.';
  END IF;
  IF taker.here THEN
    PERFORM {cell}.require_settled_server('taking buckets');
    PERFORM {cell}.require_confirmed_map('taking buckets');
  END IF;
  PERFORM FROM {cell}.payment_buckets b WHERE b.bucket = ANY (buckets) ORDER BY b.bucket FOR UPDATE;
  SELECT min(b.bucket) INTO wrong
  FROM unnest(buckets, versions) AS g(bucket, version)
  JOIN {cell}.payment_buckets b ON b.bucket = g.bucket
  WHERE g.version < b.version + 2 AND NOT (g.version = b.version AND EXISTS (
    SELECT FROM {cell}.payment_cell_changes k
    WHERE k.bucket = g.bucket AND k.version = g.version AND k.cell_id = taker.cell_id AND k.settles));
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell knows a newer version of bucket %s than those that were read', wrong),
      HINT = 'Read all maps again: railhead cell sync.';
  END IF;
  -- A move may have been completed since the maps were read: the keys are here, and go with the bucket.
  SELECT min(b.bucket) INTO wrong FROM {cell}.payment_buckets b
  WHERE b.bucket = ANY (buckets) AND b.mine AND NOT taker.here;
  IF wrong IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('this cell takes bucket %s, and no other map contradicts that', wrong),
      HINT = 'See railhead cell status. railhead cell move takes it to another cell.';
  END IF;
  INSERT INTO {cell}.payment_cell_changes (bucket, version, cell, cell_id, settles, reason)
  SELECT g.bucket, g.version, taker.name, taker.cell_id, true, settle_buckets.reason
  FROM unnest(buckets, versions) AS g(bucket, version)
  ON CONFLICT ON CONSTRAINT payment_cell_changes_pk DO NOTHING;
  GET DIAGNOSTICS done = ROW_COUNT;
  UPDATE {cell}.payment_buckets b
  SET cell = taker.name, version = g.version, mine = taker.here, contradicted = false
  FROM unnest(buckets, versions) AS g(bucket, version)
  WHERE b.bucket = g.bucket AND b.version < g.version;
  IF done > 0 THEN
    PERFORM {cell}.log_operator_act('SETTLE_BUCKETS', taker.name, NULL, settle_buckets.reason,
      jsonb_build_object('buckets', to_jsonb(buckets), 'versions', to_jsonb(versions)));
  END IF;
  RETURN done;
END
$$;
