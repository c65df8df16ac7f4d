-- suspend_outbox(worker_id text, cause text, detail text, looked_at timestamptz) -> uuid
--   Records that the database may have forgotten committed rows, so that nothing is sent or ended
--   on its basis until an operator has compared with the rails. Returns the open suspension: the new
--   one, or the one that was already open. An open suspension of another server, timeline or server
--   start is taken over and counts as opened now, so that it covers what this restore forgot. So is one
--   of this start, once it is found that data is missing: if it was opened for another reason, or if looked_at is
--   later than its opened_at, by which a component says that the data was there since, and went back again.
--
--   known_until is the newest moment up to which the data is complete: the last heartbeat on an
--   earlier start of the server for which its component vouched, or -infinity if there is none. A
--   callback endpoint does not vouch, because it does not see sends. Other heartbeats, and the last
--   transaction that recovery replayed, may be later than the restore: the server may have been
--   started, written to and started again before a component checked it. known_until is never later
--   than this call: a clock that was set back, or another server's clock, may have been ahead, and
--   key windows and the profiles that apply are counted from it.
--
--   The open suspension ends that enqueues go by the last comparison of the map of cells (doubt_map), which does
--   not wait long for the row that they read. A call that finds the same suspension open does it again, if it is still to be
--   done and the row is free; it changes nothing else. Components repeat the call while the suspension is open, with its
--   opened_at as looked_at.
--
--   A cause of NEW_TIMELINE is kept as ROWS_MISSING where the present server and timeline were accepted with other
--   tables: rows are missing that were committed after the dump, or after the copy.
--
--   If an operator has accepted the server since looked_at, the time when the caller read its
--   facts, no suspension is opened and the result is null: the caller checks again. An acceptance
--   in the future has the time of a clock that was ahead, and counts as earlier.
-- errors:  22023 for an unknown cause.
-- reads:   outbox_heartbeats, payment_accepted_timelines, and what map_is_confirmed reads.
-- writes:  payment_outbox_suspensions, payment_outbox_rules.
-- locks:   the open suspension's row, or that of payment_outbox_rules without waiting.
-- called by: executor, callbacks.
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
  -- An acceptance that is under way holds the open suspension's row. It ends a call that has to wait for that, too.
  IF same.suspension_id IS NULL THEN
    PERFORM FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL FOR UPDATE;
  END IF;
  -- Only acceptances of this start and this timeline count: others may have the times of another
  -- server's clock.
  IF EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s
      WHERE s.accepted_at > looked_at AND s.accepted_at <= clock_timestamp()
        AND s.server_started_at = pg_postmaster_start_time() AND s.timeline = {cell}.server_timeline())
    OR cause = 'NEW_TIMELINE' AND EXISTS (
      SELECT
      FROM pg_control_system() c
      CROSS JOIN {cell}.timeline_accepted_at(c.system_identifier::text, {cell}.server_timeline()) AS t(accepted_at)
      WHERE t.accepted_at > looked_at AND t.accepted_at <= clock_timestamp())
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
  -- Of this server and timeline only other tables were accepted: these were loaded from a dump, or copied.
  IF cause = 'NEW_TIMELINE' AND EXISTS (
    SELECT
    FROM {cell}.payment_accepted_timelines t
    JOIN pg_control_system() c ON t.system_identifier = c.system_identifier::text
    WHERE t.timeline = {cell}.server_timeline()
      AND {cell}.timeline_accepted_at(t.system_identifier, t.timeline) IS NULL)
  THEN
    cause := 'ROWS_MISSING';
    detail := 'rows were accepted in other tables than these: a dump was loaded since, or the database was copied';
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
