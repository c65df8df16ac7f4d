-- hold_event_endpoint(endpoint_id text) -> timestamptz
--   Locks the row of an endpoint until the transaction ends, and returns since when it is paused; null: it is not.
--   Until then no delivery of it is noted and no other operator acts on it, so an act of the same transaction
--   finds what an operator has compared.
-- errors:  RH010 no such endpoint, 55P03 after 5 s of waiting for the lock.
-- reads:   payment_event_endpoints.   writes: nothing.   locks: the endpoint's row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.hold_event_endpoint(endpoint_id text) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  paused timestamptz;
BEGIN
  SELECT e.paused_at INTO paused FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 COLLATE "C" FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such endpoint',
      HINT = 'See them all: railhead events endpoints.';
  END IF;
  RETURN paused;
END
$$;
