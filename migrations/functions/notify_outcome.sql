-- notify_outcome(outbox_id uuid) -> void
--   Wakes callers that wait for outcomes: NOTIFY "{cell}.payment_outcomes" with the
--   outbox_id, at commit. It carries nothing else: a caller that is woken asks for the
--   status. Record tells up to 200 in one NOTIFY, with a space between them.
--
--   NOTIFY takes a database-wide lock at commit, so it is said only while some caller
--   waits. One who waits holds an advisory lock exclusively, or waits for it, and asks
--   for the status after that; who writes an outcome tries to take it shared, until the
--   end of its transaction. If it gets it, no caller waits yet, and one that begins to
--   wait sees what was committed.
-- reads, writes: nothing.   locks: the advisory lock, shared; NOTIFY's queue lock at
--          commit, if it tells.
-- called by: executor (record has the same inline), append_outbox_row,
--          open_dead_letters, cancel_payment.
CREATE OR REPLACE FUNCTION {cell}.notify_outcome(outbox_id uuid) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT pg_notify('{cell}.payment_outcomes', $1::text)
  WHERE NOT pg_try_advisory_xact_lock_shared(hashtextextended('{cell}.payment_outcomes', 0))
$$;
