-- notify_outcome(outbox_id uuid) -> void
--   Notifies callers that wait for outcomes: NOTIFY "{cell}.payment_outcomes" with the outbox_id,
--   at commit. A notification is only a wake-up: the caller then reads the status. record.sql puts
--   up to 200 ids into one notification, separated by spaces.
--
--   NOTIFY takes a database-wide lock at commit, so a transaction notifies only while some caller
--   waits. A waiting caller holds an advisory lock exclusively, or is queued for it, and reads the
--   status after that. A writer of an outcome tries to acquire the lock shared until the end of its
--   transaction. If it succeeds, no caller waits yet, and one that begins to wait will see the
--   committed outcome.
-- reads, writes: nothing.   locks: the advisory lock, shared; NOTIFY's queue lock at
--          commit, if it notifies.
-- called by: executor (record.sql has the same inline), append_outbox_row,
--          open_dead_letters, cancel_payment.
CREATE OR REPLACE FUNCTION {cell}.notify_outcome(outbox_id uuid) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT pg_notify('{cell}.payment_outcomes', $1::text)
  WHERE NOT pg_try_advisory_xact_lock_shared(hashtextextended('{cell}.payment_outcomes', 0))
$$;
