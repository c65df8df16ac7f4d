-- Acquires the advisory lock of the cell's notifier exclusively, so that every enqueue notifies
-- from now on, or returns whether another session holds it: enqueues then notify until that session
-- releases it. $1 channel
SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS taken,
  EXISTS (
    SELECT FROM pg_locks l
    CROSS JOIN (SELECT hashtextextended($1, 0) AS key) k
    WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted AND l.objsubid = 1
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND l.classid = ((k.key >> 32) & 4294967295)::oid AND l.objid = (k.key & 4294967295)::oid
      AND l.pid <> pg_backend_pid()) AS taken_by_another
