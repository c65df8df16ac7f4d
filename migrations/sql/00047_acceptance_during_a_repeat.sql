-- Migration 47, acceptance during a repeat. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function suspend_outbox
CREATE OR REPLACE FUNCTION {cell}.suspend_outbox(worker_id text, cause text, detail text, looked_at timestamptz)
  RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  id   uuid;
  same {cell}.payment_outbox_suspensions; -- the open one, if this call changes nothing in it
BEGIN
  IF cause IS NULL OR cause NOT IN ('NEW_SERVER', 'NEW_TIMELINE', 'LOG_WENT_BACK', 'ROWS_MISSING', 'NO_MEMORY') THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%L is not a cause of a suspension', cause);
  END IF;
  PERFORM {cell}.require_durable_commit();
  -- This is read before the acceptances: one that is committed between the two ends the call, and opens nothing anew.
  SELECT s.* INTO same FROM {cell}.payment_outbox_suspensions s
  WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time() AND s.timeline = {cell}.server_timeline()
    AND s.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
    AND (s.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND looked_at <= s.opened_at
      OR suspend_outbox.cause NOT IN ('LOG_WENT_BACK', 'ROWS_MISSING'));
  -- Only acceptances of this start and this timeline count: others may have the times of another
  -- server's clock.
  IF EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s
      WHERE s.accepted_at > looked_at AND s.accepted_at <= clock_timestamp()
        AND s.server_started_at = pg_postmaster_start_time() AND s.timeline = {cell}.server_timeline())
    OR cause = 'NEW_TIMELINE' AND EXISTS (
      SELECT FROM {cell}.payment_accepted_timelines t
      WHERE t.accepted_at > looked_at AND t.accepted_at <= clock_timestamp() AND t.timeline = {cell}.server_timeline()
        AND t.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c))
  THEN
    RETURN NULL;
  END IF;
  IF same.suspension_id IS NOT NULL THEN
    IF same.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND NOT {cell}.map_is_confirmed() THEN
      PERFORM FROM {cell}.payment_outbox_rules r WHERE r.confirmed_start IS NOT NULL FOR UPDATE SKIP LOCKED;
      IF FOUND THEN
        -- A new statement: it sees a comparison whose transaction has released the row just now.
        UPDATE {cell}.payment_outbox_rules SET confirmed_start = NULL WHERE NOT {cell}.map_is_confirmed();
      END IF;
    END IF;
    RETURN same.suspension_id;
  END IF;
  INSERT INTO {cell}.payment_outbox_suspensions AS s
    (worker_id, cause, detail, system_identifier, timeline, server_started_at, known_until)
  SELECT suspend_outbox.worker_id, suspend_outbox.cause, left(suspend_outbox.detail, 500), c.system_identifier::text,
    {cell}.server_timeline(), pg_postmaster_start_time(),
    least(clock_timestamp(), coalesce((
      SELECT max(CASE WHEN h.vouched AND h.server_started_at <> pg_postmaster_start_time() THEN h.last_tick_at
        ELSE h.tick_before_start END)
      FROM {cell}.outbox_heartbeats h
      WHERE h.kind IN ('relayer', 'reaper')), '-infinity'))
  FROM pg_control_system() c
  ON CONFLICT ((accepted_at IS NULL)) WHERE accepted_at IS NULL DO UPDATE SET
    worker_id = excluded.worker_id, cause = excluded.cause, detail = excluded.detail,
    system_identifier = excluded.system_identifier, timeline = excluded.timeline,
    server_started_at = excluded.server_started_at, known_until = least(s.known_until, excluded.known_until),
    opened_at = excluded.opened_at
  WHERE (s.system_identifier, s.timeline, s.server_started_at)
    IS DISTINCT FROM (excluded.system_identifier, excluded.timeline, excluded.server_started_at)
    OR excluded.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND (s.cause NOT IN ('LOG_WENT_BACK', 'ROWS_MISSING') OR looked_at > s.opened_at)
  RETURNING s.suspension_id INTO id;
  RETURN coalesce(id, (SELECT s.suspension_id FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL));
END
$$;
-- end of suspend_outbox

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 47, serves 13'
$$;
-- end of schema_version
