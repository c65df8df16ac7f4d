-- keep_namespace() -> trigger
--   Refuses that the constant changes from which rail keys are derived (rail_key_namespace), unless no
--   participant has enqueued and no key is stored: a repeated call would get another rail key, and the payment would be made twice.
--   A cell takes the constant of its directory while it is empty (name_cell, which locks out first instructions).
-- errors:  P0001.
-- reads:   payment_outbox_keys, participant_outbox_sequences.   writes, locks: nothing.
-- called by: a trigger of payment_outbox_settings.
CREATE OR REPLACE FUNCTION {cell}.keep_namespace() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF EXISTS (SELECT FROM {cell}.payment_outbox_keys) OR EXISTS (SELECT FROM {cell}.participant_outbox_sequences) THEN
    RAISE EXCEPTION USING ERRCODE = 'P0001',
      MESSAGE = format('%s of rail_key_namespace of %I.%I is refused', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME),
      HINT = 'Rail keys were derived from it. With another value a repeated call would be another payment to the rails.';
  END IF;
  RETURN NEW;
END
$$;
