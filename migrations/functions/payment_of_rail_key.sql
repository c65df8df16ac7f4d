-- payment_of_rail_key(rail_key uuid) -> uuid
--   The outbox_id of the instruction with this rail key; null if there is none.
-- reads:   payment_outbox_keys.   locks: nothing.   called by: callbacks.
CREATE OR REPLACE FUNCTION {cell}.payment_of_rail_key(rail_key uuid) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT k.outbox_id FROM {cell}.payment_outbox_keys k WHERE k.rail_key = $1
$$;
