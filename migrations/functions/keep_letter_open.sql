-- keep_letter_open() -> trigger
--   Raises 42501 if an update by a role other than the owner sets a status other than pending.
--   Components open and reopen letters. Operators change the status by functions that log the
--   operator and the reason, and that run as the owner.
-- reads:   the catalog.   writes, locks: nothing.   called by: a trigger of payment_dead_letters, ENABLE ALWAYS.
CREATE OR REPLACE FUNCTION {cell}.keep_letter_open() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF pg_has_role(current_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'USAGE') THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING
    ERRCODE = '42501',
    MESSAGE = format('the status of the dead letter of %s can''t be changed by an update', OLD.outbox_id),
    HINT = 'Use railhead dead-letter, which logs the operator and the reason.';
END
$$;
