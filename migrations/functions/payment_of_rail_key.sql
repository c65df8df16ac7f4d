-- payment_of_rail_key(rail_key uuid) -> uuid
--   The outbox_id of the instruction that a rail knows by this key; null: none.
-- reads:   payment_outbox_keys.   locks: nothing.   called by: callbacks.
CREATE OR REPLACE FUNCTION {cell}.payment_of_rail_key(rail_key uuid) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT k.outbox_id FROM {cell}.payment_outbox_keys k WHERE k.rail_key = $1
$$;
