-- discard_events(endpoint_id text, reason text) -> integer
--   Discards permanently the events of an endpoint that are not delivered again without an
--   operator. Later events of the same instructions are delivered. Callers can still read the
--   discarded events by GET /v1/events. Returns the number of discarded events.
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
  -- The deliveries that a worker has in progress belong to the earlier epoch, and are not noted.
  UPDATE {cell}.payment_event_endpoints e SET epoch = e.epoch + 1 WHERE e.endpoint_id = $1 COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such endpoint',
      HINT = 'See them all: railhead events endpoints.';
  END IF;
  DELETE FROM {cell}.payment_event_retries r WHERE r.endpoint_id = $1 COLLATE "C" AND NOT isfinite(r.next_at);
  GET DIAGNOSTICS given_up = ROW_COUNT;
  PERFORM {cell}.log_operator_act('DISCARD_EVENTS', $1, NULL, $2, jsonb_build_object('events', given_up));
  RETURN given_up;
END
$$;
