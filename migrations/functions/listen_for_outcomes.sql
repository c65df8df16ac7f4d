-- listen_for_outcomes() -> boolean
--   Subscribes this session to outcomes: executes LISTEN "{cell}.payment_outcomes", whose payload
--   is one or more outbox_ids separated by spaces, and acquires the advisory lock that makes
--   writers notify (notify_outcome). Returns true if every outcome that is committed from now on is
--   notified while the session lives. Returns false if another session holds the lock, so that
--   outcomes are notified while that session lives, or if writers did not release it within a
--   second: call again soon. A notification is only a wake-up: read the status after this call and
--   after each notification.
-- reads:   pg_locks.   locks: the advisory lock, exclusively, until the session ends.
-- called by: ingest, api.
CREATE OR REPLACE FUNCTION {cell}.listen_for_outcomes() RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
AS $$
DECLARE
  key    CONSTANT bigint := hashtextextended('{cell}.payment_outcomes', 0);
  holder integer;
BEGIN
  LISTEN "{cell}.payment_outcomes";
  SELECT l.pid INTO holder FROM pg_locks l
  WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.classid = ((key >> 32) & 4294967295)::oid AND l.objid = (key & 4294967295)::oid;
  IF holder IS NOT NULL THEN
    RETURN holder = pg_backend_pid();
  END IF;
  BEGIN
    -- While this session is queued for the lock, writers do not get it and already notify.
    PERFORM pg_advisory_lock(key);
    RETURN true;
  EXCEPTION WHEN lock_not_available THEN
    RETURN false;
  END;
END
$$;
