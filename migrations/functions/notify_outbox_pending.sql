-- notify_outbox_pending() -> trigger
--   Rings the bell for relayers that sleep: NOTIFY "{cell}.outbox_pending",
--   payload new_work. A bell only wakes; it carries nothing that a listener trusts.
--
--   NOTIFY takes a database-wide lock at commit and keeps it through the flush, so
--   it is rung only while some relayer sleeps. A relayer takes an advisory lock
--   exclusively before it sleeps, and looks for due rows once more. The trigger's
--   condition takes the same lock shared, until its transaction ends; a condition,
--   because this function is not even called where no relayer sleeps:
--
--   it gets the lock      no relayer sleeps. One that wants to sleep can't get its
--                         lock before this transaction has ended, and then looks
--                         once more: it sees what this transaction has committed
--   it can't              some relayer sleeps, or is looking once more: ring
--
--   Neither a flag nor a snapshot is involved, so it holds at every isolation
--   level and however long the caller's transaction is; a relayer that dies gives
--   its lock back. What a relayer that dies awake leaves unrung is found by the
--   poll of another, one poll interval late at the worst.
--
--   A transaction that has rung can't be prepared for two-phase commit. One with
--   {cell}.notify set to off neither rings nor takes the lock: relayers find its
--   rows by their poll.
-- reads, writes: nothing.   locks: the cell's bell, shared, until the transaction
--          ends; NOTIFY's queue lock at commit, if it rings.
-- called by: the insert trigger of payment_outbox_pending.
CREATE OR REPLACE FUNCTION {cell}.notify_outbox_pending() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  RETURN NULL;
END
$$;
