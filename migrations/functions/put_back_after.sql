-- put_back_after(outbox_id uuid) -> text
--   The state of the instruction's last row, if its pending row was put back by other means than
--   Railhead, by a restore of that table alone or by hand. That is so if the instruction has ended,
--   is parked or is claimed, so that it can't be pending; or if attempt_count of the pending row is
--   lower than the number of rows in the archive, because every writer that appends a row for a
--   pending instruction raises attempt_count under its lock. Null if the instruction may be
--   pending. LATE_OUTCOME rows are counted, but are not a state, unless there are no other rows. A
--   month that has left the archive does not count.
-- reads:   payment_outbox_attempts, payment_outbox_pending.   locks: nothing.
-- called by: executor (a claim has the same test inline), record_late_outcome, operator functions.
CREATE OR REPLACE FUNCTION {cell}.put_back_after(outbox_id uuid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce(l.state::text, 'LATE_OUTCOME')
    FROM (SELECT max(a.attempt_no) AS no FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1) m
    LEFT JOIN LATERAL (
      SELECT a.state
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC
      LIMIT 1) l ON true
    WHERE l.state NOT IN ({waiting_states})
      OR (SELECT p.attempt_count FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1) < m.no);
END
$$;
