-- notify_outbox_pending() -> trigger
--   Notifies idle relayers of new work: NOTIFY "{cell}.outbox_pending" with the payload new_work. A
--   notification is only a wake-up; no listener trusts its content.
--
--   NOTIFY takes a database-wide lock at commit and holds it through the flush, so a transaction
--   notifies only while some relayer is idle. Before it becomes idle, a relayer acquires an
--   advisory lock exclusively and then checks once more for due rows. The condition of the trigger
--   tries to acquire the same lock shared, until the transaction ends. It is a condition so that
--   this function is not even called while no relayer is idle:
--
--   it gets the lock      No relayer is idle. One that wants to become idle can't acquire the
--                         lock before this transaction has ended, and then checks once
--                         more: it sees the rows that this transaction has committed.
--   it does not           Some relayer is idle, or is checking once more: notify.
--
--   This involves neither a flag nor a snapshot, so it is correct at every isolation level and for
--   a transaction of any length. A relayer that dies releases its lock. Rows that only a relayer
--   which died would have found are found by another relayer's poll, at most one poll interval
--   late.
--
--   A transaction that has notified can't be prepared for two-phase commit. A transaction with
--   {cell}.notify set to off neither notifies nor takes the lock; relayers find its rows by
--   polling.
-- reads, writes: nothing.   locks: the advisory lock of the cell's notifier, shared, until the
--          transaction ends; NOTIFY's queue lock at commit, if it notifies.
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
