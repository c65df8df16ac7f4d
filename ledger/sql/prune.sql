-- Removes what nothing needs any more from the next rows. $1 what, $2 before, $3 reason, $4 the key after which the
-- batch begins, or null, $5 rows of the batch, $6 whether only to count
SELECT p.seen, p.pruned, p.kept_open, p.kept_recent, p.kept_needed, coalesce(p.next_key, '')
FROM {cell}.prune($1, $2, $3, $4, $5, $6) p
