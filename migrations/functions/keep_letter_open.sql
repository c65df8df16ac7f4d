-- keep_letter_open() -> trigger
--   Raises 42501 if an update by a role other than the owner sets a status other than pending.
--   Components open and reopen letters. Operators change the status by functions that log the
--   operator and the reason, and that run as the owner. A letter that is closed keeps the number of the last
--   row that was there (closed_after_no): only a newer one opens it again.
-- reads:   payment_outbox_attempts, and the catalog.   writes, locks: nothing.
-- called by: a trigger of payment_dead_letters, ENABLE ALWAYS.
CREATE OR REPLACE FUNCTION {cell}.keep_letter_open() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF pg_has_role(current_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'USAGE') THEN
    IF NEW.status IN ({closed_letters}) AND OLD.status NOT IN ({closed_letters}) THEN
      NEW.closed_after_no := (
        SELECT coalesce(max(a.attempt_no), 0) FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = NEW.outbox_id);
    END IF;
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING
    ERRCODE = '42501',
    MESSAGE = format('the status of the dead letter of %s can''t be changed by an update', OLD.outbox_id),
    HINT = 'Use railhead dead-letter, which logs the operator and the reason.';
END
$$;
