-- A moment, and the numbers of transactions at it: the lowest that is in progress, prepared transactions and commits
-- that wait for a standby included, and one above all that are given. Each transaction with a number has a lock on it.
-- A standby has no locks of the primary's transactions: there no number is known to be above all, and none is reached.
SELECT statement_timestamp(), s.xmin, CASE WHEN pg_is_in_recovery() THEN 9223372036854775807
  ELSE greatest(s.xmax, (
    -- The lock has the lower 32 bits of the number, which is within 2^31 of xmax.
    SELECT max(s.xmax + mod(l.transactionid::text::bigint - mod(s.xmax, 4294967296) + 6442450944, 4294967296)
      - 2147483648 + 1)
    FROM pg_locks l
    WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted)) END
FROM (
  SELECT pg_snapshot_xmin(n)::text::bigint AS xmin, pg_snapshot_xmax(n)::text::bigint AS xmax
  FROM pg_current_snapshot() n) s
