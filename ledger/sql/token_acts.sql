-- The open transactions that put a token in force or revoke one: no other takes this lock on their table.
-- Every role sees it. Prepared transactions are numbered, too.
SELECT DISTINCT l.virtualtransaction
FROM pg_locks l
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock'
  AND l.granted AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND l.relation = '{cell}.payment_api_tokens'::regclass
