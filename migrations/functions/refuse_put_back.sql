-- refuse_put_back(outbox_id uuid) -> integer
--   Refuses to claim or to expire an instruction that was put back in pending after
--   it had ended, or was parked or claimed: it may have been paid. Stands where the
--   number of the next row would.
-- errors:  RH013, always. Who asked sets the row aside as UNCLAIMABLE, PUT_BACK.
-- reads:   what put_back_after reads.   locks: nothing.   called by: executor.
CREATE OR REPLACE FUNCTION {cell}.refuse_put_back(outbox_id uuid) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'RH013',
    MESSAGE = format('outbox_id %s was put back in pending: its last row is %s', outbox_id, {cell}.put_back_after(outbox_id)),
    HINT = 'It is set aside. Find out who put it back; closing its dead letter takes it out of pending.';
END
$$;
