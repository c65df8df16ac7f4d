-- refuse_unlogged_act() -> trigger
--   Refuses a row of the archive that records an act of an operator, unless a function of the cell
--   writes it: a cancellation, a replay, a request to ask the rail (ASKED), and evidence of an
--   operator (RESOLVED). Those functions log who acted and why; a component, which may append rows,
--   could write such a row without. The condition of the trigger selects the rows. The owner of the
--   archive, the roles that inherit its rights and superusers are not refused: a restore writes such rows. A partition
--   may have another owner, as one that was restored without owners and attached again: it decides nothing.
-- errors:  42501 for every other role.
-- reads:   the catalog.   locks: nothing.   called by: a trigger, ENABLE ALWAYS.
CREATE OR REPLACE FUNCTION {cell}.refuse_unlogged_act() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF pg_has_role(current_user,
    (SELECT c.relowner FROM pg_class c WHERE c.oid = '{cell}.payment_outbox_attempts'::regclass), 'USAGE') THEN
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
