-- refuse_put_back(outbox_id uuid) -> integer
--   Refuses to claim or expire an instruction whose pending row was put back, because the
--   instruction has ended, is parked or is claimed, or because the row is an older copy. It may
--   have been paid. The call takes the place of the number of the next row.
-- errors:  RH013, always. The caller quarantines the row as UNCLAIMABLE, PUT_BACK.
-- reads:   payment_outbox_attempts.   locks: nothing.   called by: executor.
CREATE OR REPLACE FUNCTION {cell}.refuse_put_back(outbox_id uuid) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'RH013',
    MESSAGE = format('outbox_id %s was put back in pending: its last row is %s', outbox_id, (
      SELECT format('%s, row %s', a.state, a.attempt_no)
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = refuse_put_back.outbox_id
      ORDER BY a.state = 'LATE_OUTCOME', a.attempt_no DESC
      LIMIT 1)),
    HINT = 'It is quarantined. Find out who put it back; then close its dead letter, or resolve it if it may have '
      'been paid.';
END
$$;
