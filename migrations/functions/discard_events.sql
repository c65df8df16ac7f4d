-- discard_events(endpoint_id text, reason text) -> integer
--   Gives up for good what waits for an endpoint and is not tried by itself any more: it is
--   not delivered, what waits behind it is. Callers find it in GET /v1/events all the same.
--   Returns how many events it was.
-- errors:  RH002 without a reason, RH010 no such endpoint, 55P03 after 5 s of waiting for a lock.
-- writes:  payment_event_endpoints, payment_event_retries, payment_operator_log.
-- locks:   the endpoint's row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.discard_events(endpoint_id text, reason text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  given_up integer;
BEGIN
  PERFORM {cell}.require_reason($2);
  -- What its worker has in hand belongs to the epoch before, and is not noted.
  UPDATE {cell}.payment_event_endpoints e SET epoch = e.epoch + 1 WHERE e.endpoint_id = $1 COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such endpoint', HINT = 'See them all: railhead events endpoints.';
  END IF;
  DELETE FROM {cell}.payment_event_retries r WHERE r.endpoint_id = $1 COLLATE "C" AND NOT isfinite(r.next_at);
  GET DIAGNOSTICS given_up = ROW_COUNT;
  PERFORM {cell}.log_operator_act('DISCARD_EVENTS', $1, NULL, $2, jsonb_build_object('events', given_up));
  RETURN given_up;
END
$$;
