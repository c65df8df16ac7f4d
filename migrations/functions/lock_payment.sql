-- lock_payment(outbox_id uuid) -> void
--   Acquires the row lock that operators, callbacks and record_late_outcome share.
-- errors:  RH010 unknown instruction.   reads: payment_outbox_keys.   locks: the keys row.
-- called by: operator functions.
CREATE OR REPLACE FUNCTION {cell}.lock_payment(outbox_id uuid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  PERFORM FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = lock_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = format('outbox_id %s is not known to this cell',
      lock_payment.outbox_id);
  END IF;
END
$$;
