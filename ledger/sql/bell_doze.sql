-- Takes the cell's bell exclusively, or says whether another session has it so:
-- in both cases every enqueue rings from now on. $1 channel
SELECT pg_try_advisory_lock(hashtextextended($1, 0)) AS taken,
  EXISTS (
    SELECT FROM pg_locks l
    CROSS JOIN (SELECT hashtextextended($1, 0) AS key) k
    WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted AND l.objsubid = 1
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
      AND l.classid = ((k.key >> 32) & 4294967295)::oid AND l.objid = (k.key & 4294967295)::oid
      AND l.pid <> pg_backend_pid()) AS beside
