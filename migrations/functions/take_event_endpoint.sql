-- take_event_endpoint(endpoint_id text, worker_id text, lease_ms bigint, since timestamptz)
--   -> (epoch bigint, held_by text, paused_at timestamptz, pause_reason text)
--   Acquires the lease of an endpoint for a worker, for lease_ms, or renews it. epoch is the
--   fencing token under which the worker notes its deliveries. It is null if another worker,
--   held_by, has the lease until it ends. An endpoint that is not known yet begins with events from
--   now on, or from the time since. That place is durable: one that a crash took back would be later, and the
--   events between would never be delivered.
-- errors:  RH002 a worker without a name, or an endpoint with an invalid id. RH005 a lease
--          above 10 min, or more than 1,000 endpoints. 55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_attempts.
-- writes:  payment_event_endpoints.   locks: its row.   called by: events.
CREATE OR REPLACE FUNCTION {cell}.take_event_endpoint(endpoint_id text, worker_id text, lease_ms bigint,
  since timestamptz)
RETURNS TABLE (epoch bigint, held_by text, paused_at timestamptz, pause_reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  found_row {cell}.payment_event_endpoints;
BEGIN
  IF coalesce($2, '') = '' OR coalesce($1, '') !~ '^[a-z0-9][a-z0-9_-]{0,63}$' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a worker needs a name, and an endpoint an id of 1 to 64 characters of a-z, 0-9, _ and -',
      HINT = 'Give each endpoint of the file such an id.';
  ELSIF $3 IS NULL OR $3 NOT BETWEEN 1 AND 600000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = 'a lease must be 1 ms to 10 min',
      HINT = 'Take a shorter lease, and renew it.';
  END IF;
  SELECT e.* INTO found_row FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 FOR UPDATE;
  IF NOT FOUND THEN
    IF (SELECT count(*) FROM {cell}.payment_event_endpoints) >= 1000 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = 'there are already 1000 endpoints',
        HINT = 'Use fewer endpoints, one for each caller.';
    END IF;
    PERFORM {cell}.require_durable_commit();
    INSERT INTO {cell}.payment_event_endpoints AS e (endpoint_id, place_system, place_xact, place_outbox_id,
      place_attempt_no, place_attempt_id)
    SELECT $1, s.system_identifier::text,
      coalesce(CASE WHEN $4 IS NULL THEN n.xact ELSE {cell}.outcome_feed_since($4) END, '0'),
      CASE WHEN $4 IS NULL THEN n.outbox_id END, CASE WHEN $4 IS NULL THEN n.attempt_no END, CASE WHEN $4 IS NULL
        THEN n.attempt_id END
    FROM pg_control_system() s
    CROSS JOIN {cell}.outcome_newest() n
    ON CONFLICT ON CONSTRAINT payment_event_endpoints_pk DO NOTHING;
    SELECT e.* INTO found_row FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 FOR UPDATE;
  END IF;
  IF found_row.worker_id <> $2 AND found_row.lease_until > clock_timestamp() THEN
    RETURN QUERY SELECT NULL::bigint, found_row.worker_id, found_row.paused_at, found_row.pause_reason;
    RETURN;
  END IF;
  RETURN QUERY
  UPDATE {cell}.payment_event_endpoints e
  SET worker_id = $2, lease_until = clock_timestamp() + $3 * interval '1 ms', epoch = e.epoch + CASE
    WHEN e.worker_id = $2 THEN 0 ELSE 1 END
  WHERE e.endpoint_id = $1
  RETURNING e.epoch, e.worker_id, e.paused_at, e.pause_reason;
END
$$;
