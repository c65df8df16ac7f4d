-- require_durable_map() -> void
--   Prepares a change of the map of cells. Raises 25001 above READ COMMITTED: there a statement does
--   not see what was committed while the one before it waited for a lock, and a participant that has
--   just enqueued would be overlooked. Sets synchronous_commit for the transaction if the login has it
--   lower: another cell acts on the change, so that it must survive a crash and a failover.
-- reads, writes, locks: nothing.   called by: name_cell, learn_cells, give_buckets, settle_buckets,
--          confirm_map, flush_map, note_cell_server, freeze_bucket, pack_bucket, thaw_bucket, begin_arrival,
--          store_arrivals, complete_arrival.
CREATE OR REPLACE FUNCTION {cell}.require_durable_map() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION USING ERRCODE = '25001', MESSAGE = 'the map of cells is changed in READ COMMITTED only',
      HINT = 'Begin the transaction with ISOLATION LEVEL READ COMMITTED.';
  END IF;
  PERFORM {cell}.require_durable_commit();
END
$$;
