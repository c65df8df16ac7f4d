-- keep_letter_open() -> trigger
--   Raises 42501 where an update leaves a dead letter in another status than
--   pending and is not the owner's own: components open letters and reopen them.
--   Operators move them on through the functions that log who did and why, and
--   those run as the owner.
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
    MESSAGE = format('the dead letter of %s is not ended or moved on by an update', OLD.outbox_id),
    HINT = 'Operators do that: railhead dead-letter, which logs who and why.';
END
$$;
