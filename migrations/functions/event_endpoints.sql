-- event_endpoints()
--   -> (endpoint_id text, created_at timestamptz, paused_at timestamptz, pause_reason text, worker_id text,
--       lease_until timestamptz,
--       delivered_at timestamptz, read_until timestamptz, waiting integer, given_up integer, oldest_at timestamptz,
--       last_status text)
--   The endpoints to which events are delivered. read_until is the time of the row of the
--   endpoint's cursor (null if it has none, or if that row is not in the archive), waiting the
--   number of events that are to be retried, given_up the number of those that are not retried
--   without an operator, oldest_at the time of the oldest of them, and last_status the reason why
--   the last delivery failed.
-- errors:  55P03 after 5 s of waiting for a lock.
-- reads:   payment_event_endpoints, payment_event_retries, payment_outbox_attempts.
-- locks:   nothing.   called by: operator, readonly, auditor.
CREATE OR REPLACE FUNCTION {cell}.event_endpoints()
RETURNS TABLE (endpoint_id text, created_at timestamptz, paused_at timestamptz, pause_reason text, worker_id text,
  lease_until timestamptz,
  delivered_at timestamptz, read_until timestamptz, waiting integer, given_up integer, oldest_at timestamptz,
  last_status text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT e.endpoint_id, e.created_at, e.paused_at, e.pause_reason, e.worker_id, e.lease_until, e.delivered_at, (
      SELECT a.created_at FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = e.place_outbox_id AND a.attempt_no = e.place_attempt_no
        AND a.attempt_id = e.place_attempt_id),
    coalesce(w.waiting, 0), coalesce(w.given_up, 0), w.oldest_at, w.last_status
  FROM {cell}.payment_event_endpoints e
  LEFT JOIN LATERAL (
    SELECT count(*)::integer AS waiting, (count(*) FILTER (WHERE NOT isfinite(r.next_at)))::integer AS given_up,
      min(r.created_at) AS oldest_at, (array_agg(r.last_status ORDER BY r.failed_at DESC NULLS LAST))[1] AS last_status
    FROM {cell}.payment_event_retries r
    WHERE r.endpoint_id = e.endpoint_id) w ON true
  ORDER BY e.endpoint_id;
END
$$;
