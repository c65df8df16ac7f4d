-- listen_for_outcomes() -> boolean
--   Lets this session hear outcomes: LISTEN "{cell}.payment_outcomes", whose payload
--   is one or more outbox_ids with a space between them, and takes the advisory lock by which they are told (notify_outcome).
--   True: every outcome that is committed from now on is told, for as long as the
--   session lives. False: another session has the lock, so that they are told as long
--   as that one lives, or writers did not give it back within a second: call again soon.
--   A word only wakes; ask for the status after the call, and after each word.
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
    -- While it waits in line writers do not get the lock, and tell already.
    PERFORM pg_advisory_lock(key);
    RETURN true;
  EXCEPTION WHEN lock_not_available THEN
    RETURN false;
  END;
END
$$;
