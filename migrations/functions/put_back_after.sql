-- put_back_after(outbox_id uuid) -> text
--   The state that the instruction's last row has, where none with that state waits
--   in pending: it has ended, is parked, or is claimed. A pending row beside it was
--   put back past the product, by a restore of that table alone or by hand. Null: it
--   may wait. Rows LATE_OUTCOME don't count, and a month that left the archive says nothing.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: executor (a claim has the same test inline), record_late_outcome, operator functions.
CREATE OR REPLACE FUNCTION {cell}.put_back_after(outbox_id uuid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT l.state::text
  FROM (
    SELECT a.state
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME'
    ORDER BY a.attempt_no DESC
    LIMIT 1) l
  WHERE l.state NOT IN ('RETRYABLE', 'UNKNOWN', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'REPLAYED')
$$;
