-- refuse_put_back(outbox_id uuid) -> integer
--   Refuses to claim or to expire an instruction whose row was put back in pending:
--   after it had ended, or was parked or claimed, or an older copy of the row that
--   stood there. It may have been paid. Stands where the number of the next row would.
-- errors:  RH013, always. Who asked sets the row aside as UNCLAIMABLE, PUT_BACK.
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
    HINT = 'It is set aside. Find out who put it back; then close its dead letter, or resolve it where it may have been paid.';
END
$$;
