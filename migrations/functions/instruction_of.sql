-- instruction_of(outbox_id uuid) -> text
--   The instruction_id of an outbox_id in the registry; null if the outbox_id is unknown.
-- reads:   payment_outbox_keys.   locks: nothing.   called by: operator functions.
CREATE OR REPLACE FUNCTION {cell}.instruction_of(outbox_id uuid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT k.instruction_id FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = $1
$$;
