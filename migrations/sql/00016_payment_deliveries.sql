-- Migration 16, payment deliveries. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function payment_deliveries
CREATE OR REPLACE FUNCTION {cell}.payment_deliveries(outbox_id uuid)
RETURNS TABLE (endpoint_id text, paused_at timestamptz, last_no integer, passed_no integer, attempt_no integer,
  event_type text, tries integer, failed_at timestamptz, next_at timestamptz, last_status text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT e.endpoint_id, e.paused_at, n.last_no, n.passed_no, w.attempt_no, w.event_type, w.tries, w.failed_at,
    w.next_at, w.last_status
  FROM (
    SELECT p.* FROM {cell}.payment_event_endpoints p
    ORDER BY p.endpoint_id
    LIMIT 100) e
  CROSS JOIN pg_control_system() s
  CROSS JOIN LATERAL (
    SELECT max(a.attempt_no) AS last_no,
      max(a.attempt_no) FILTER (WHERE e.place_system = s.system_identifier::text AND (a.xact < e.place_xact
        OR a.xact = e.place_xact AND (a.outbox_id, a.attempt_no) <= (e.place_outbox_id, e.place_attempt_no))) AS passed_no
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state NOT IN ('DISPATCHING', 'INQUIRING')) n
  LEFT JOIN LATERAL (
    SELECT r.attempt_no, r.event_type, r.tries, r.failed_at, r.next_at, r.last_status
    FROM {cell}.payment_event_retries r
    WHERE r.endpoint_id = e.endpoint_id AND r.outbox_id = $1
    ORDER BY r.attempt_no
    LIMIT 100) w ON true
  ORDER BY e.endpoint_id, w.attempt_no;
END
$$;
-- end of payment_deliveries

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 16, serves 13'
$$;
-- end of schema_version
