-- Migration 42, acts by their functions. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function refuse_unlogged_act
CREATE OR REPLACE FUNCTION {cell}.refuse_unlogged_act() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF pg_has_role(current_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'USAGE') THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING
    ERRCODE = '42501',
    MESSAGE = format('%s is an act of an operator: %I may not write it into %I.%I',
      concat_ws(' ', NEW.state, NEW.error_code), current_user, TG_TABLE_SCHEMA, TG_TABLE_NAME),
    HINT = 'Acts of operators are written by cancel_payment, replay_payment, inquire_payment and resolve_payment, '
      'which log the operator and the reason.';
END
$$;
-- end of refuse_unlogged_act

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 42, serves 13'
$$;
-- end of schema_version

-- Partitions, also later ones, have a copy of it with ENABLE ALWAYS.
CREATE OR REPLACE TRIGGER payment_outbox_attempts_acts
  BEFORE INSERT ON {cell}.payment_outbox_attempts
  FOR EACH ROW
  WHEN (NEW.state IN ('CANCELLED', 'REPLAYED') OR NEW.error_code = 'RESOLVED'
    OR NEW.state = 'UNKNOWN' AND NEW.error_code = 'ASKED' AND NEW.answers_attempt_no IS NULL)
  EXECUTE FUNCTION {cell}.refuse_unlogged_act();
ALTER TABLE {cell}.payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_acts;
