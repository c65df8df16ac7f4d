-- put_back_after(outbox_id uuid) -> text
--   The state of the instruction's last row, where the row that stands in pending was
--   put back past the product, by a restore of that table alone or by hand: the
--   instruction has ended, is parked, or is claimed, so that none waits; or the row
--   counts fewer rows than the archive has, which everyone who appends for a waiting
--   instruction raises under its lock. Null: it may wait. Rows LATE_OUTCOME are counted,
--   and are no state, unless there are no others; a month that left the archive says nothing.
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
