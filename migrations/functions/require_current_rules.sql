-- require_current_rules() -> void
--   Raises 40001 if payment_outbox_rules has changed since the snapshot of a transaction above READ COMMITTED: there
--   every statement sees what the first one did, and a gate that was closed since would go on being open, as would
--   a bucket that was given away. What is not committed is not waited for.
--
--   The comparison is the row's lock, which fails where the snapshot has an earlier version of the row. The block that
--   takes it is rolled back, so that the lock is held for microseconds: an operator who closes a gate waits for no
--   caller's transaction.
-- errors:  40001.
-- reads:   payment_outbox_rules.   writes: nothing.   locks: its row in share mode, until it returns.
-- called by: enqueue_payment_outbox, enqueue_payment_outbox_arrays.
CREATE OR REPLACE FUNCTION {cell}.require_current_rules() RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR SHARE SKIP LOCKED;
  RAISE EXCEPTION USING ERRCODE = 'P0001', MESSAGE = 'the lock is released';
EXCEPTION
  WHEN serialization_failure THEN
    RAISE EXCEPTION USING ERRCODE = '40001',
      MESSAGE = 'what enqueue goes by has changed since the snapshot of this transaction',
      HINT = 'Retry the transaction.';
  WHEN raise_exception THEN
    NULL;
END
$$;
