-- pause_event_endpoint(endpoint_id text, worker_id text, epoch bigint, reason text) -> boolean
--   Pauses deliveries to an endpoint that has answered that it is gone, until an operator resumes
--   them. Returns false if another worker has the lease of the endpoint.
-- errors:  RH002 without a reason, 55P03 after 5 s of waiting for a lock.
-- writes:  payment_event_endpoints, payment_operator_log.   locks: the endpoint's row.
-- called by: events.
CREATE OR REPLACE FUNCTION {cell}.pause_event_endpoint(endpoint_id text, worker_id text, epoch bigint, reason text)
  RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  PERFORM {cell}.require_reason($4);
  UPDATE {cell}.payment_event_endpoints e SET paused_at = clock_timestamp(), pause_reason = $4
  WHERE e.endpoint_id = $1 AND e.worker_id = $2 AND e.epoch = $3 AND e.paused_at IS NULL;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM {cell}.log_operator_act('PAUSE_ENDPOINT', $1, NULL, $4);
  RETURN true;
END
$$;
