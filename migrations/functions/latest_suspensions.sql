-- latest_suspensions(most integer) -> (suspension_id uuid, cause text, detail text, opened_at timestamptz,
--     accepted_at timestamptz, known_until timestamptz, doubted_until timestamptz, server_started_at timestamptz,
--     timeline bigint)
--   The latest suspensions, newest first, with the time until which callers may repeat calls after
--   each, and the server on which it was opened or taken over. An unknown known_until is returned
--   as the epoch.
-- reads:   payment_outbox_suspensions, payment_outbox_settings.   locks: nothing.
-- called by: executor, callbacks.
CREATE OR REPLACE FUNCTION {cell}.latest_suspensions(most integer)
RETURNS TABLE (suspension_id uuid, cause text, detail text, opened_at timestamptz, accepted_at timestamptz,
  known_until timestamptz, doubted_until timestamptz, server_started_at timestamptz, timeline bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT s.suspension_id, s.cause, s.detail, s.opened_at, s.accepted_at,
    CASE WHEN s.known_until > '-infinity' THEN s.known_until ELSE 'epoch' END AS known_until,
    coalesce(s.accepted_at, 'epoch') + g.repeated_within AS doubted_until,
    s.server_started_at, s.timeline
  FROM {cell}.payment_outbox_suspensions s
  CROSS JOIN {cell}.payment_outbox_settings g
  ORDER BY s.suspension_id DESC
  LIMIT $1
$$;
