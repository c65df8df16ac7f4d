-- Migration 34, what a cell had meanwhile. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function accept_timeline
CREATE OR REPLACE FUNCTION {cell}.accept_timeline(reason text, since timestamptz DEFAULT NULL)
RETURNS TABLE (system_identifier text, timeline bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
AS $$
DECLARE
  suspended {cell}.payment_outbox_suspensions; -- the open one
  shape     CONSTANT text := 'YYYY-MM-DD"T"HH24:MI:SS"Z"';
  what      text; -- what has to be compared
  foreigners record;
BEGIN
  PERFORM {cell}.require_reason(accept_timeline.reason);
  SELECT s.system_identifier::text INTO accept_timeline.system_identifier FROM pg_control_system() s;
  accept_timeline.timeline := {cell}.server_timeline();
  SELECT s.* INTO suspended FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL FOR UPDATE;
  what := CASE WHEN suspended.known_until > '-infinity' THEN 'was sent since ' || to_char(suspended.known_until, shape)
    ELSE 'was ever sent' END;
  IF suspended.suspension_id IS NULL THEN
    IF since IS NOT NULL AND NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s WHERE date_trunc('second', s.opened_at) = date_trunc('second',
        since))
    THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('no suspension is open, and none was opened at %s', to_char(since, shape)),
        HINT = 'See opened_at of payment_outbox_suspensions. If the server has forgotten it, a relayer finds that out '
          'within seconds.';
    END IF;
    IF EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.kind = 'relayer') AND NOT {cell}.server_is_settled() THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'the server was started or promoted, and no relayer has confirmed since that nothing is missing: '
          'what it may have forgotten is not known yet',
        HINT = 'Start a relayer, or wait until one has compared the server with what it remembers. If lanes are '
          'suspended then, compare with the rails what was sent since known_until of payment_outbox_suspensions, '
          'and repeat this.';
    END IF;
  ELSIF (suspended.system_identifier, suspended.timeline, suspended.server_started_at)
    IS DISTINCT FROM (accept_timeline.system_identifier, accept_timeline.timeline, pg_postmaster_start_time())
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the server was started or promoted after the suspension was opened, and no relayer has checked it '
        'since: it may have forgotten more than you have compared',
      HINT = 'Start a relayer, or wait some seconds until one has checked the server. Then compare with the rails '
        'what was sent since known_until of payment_outbox_suspensions, and repeat this.';
  ELSIF since IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('lanes have been suspended since %s: confirm that you have compared with the rails for this suspension', to_char(suspended.opened_at, shape)),
      HINT = format('Compare with the rails what %s, then repeat this with --since %s.', what,
        to_char(suspended.opened_at, shape));
  ELSIF date_trunc('second', suspended.opened_at) <> date_trunc('second', since) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('lanes have been suspended since %s, but you have compared the suspension of %s: the server may have gone back again since, and forgotten the acts by which you ended payments',
        to_char(suspended.opened_at, shape), to_char(since, shape)),
      HINT = format('Compare with the rails again what %s, then repeat this with --since %s.', what,
        to_char(suspended.opened_at, shape));
  END IF;
  IF EXISTS (SELECT FROM {cell}.payment_cells) AND NOT {cell}.server_is_settled() THEN
    PERFORM {cell}.require_confirmed_map('accepting the server');
    SELECT count(*) AS n, min(p.participant_id) AS first INTO foreigners
    FROM {cell}.payment_outbox_pending p
    JOIN {cell}.payment_buckets b ON b.bucket = {cell}.cell_bucket(p.participant_id)
    WHERE (b.contradicted OR b.cell IS DISTINCT FROM (SELECT c.name FROM {cell}.payment_cells c WHERE c.here)
        -- The bucket was another cell's, and is this one's again.
        OR EXISTS (
          SELECT FROM {cell}.payment_cell_changes o
          WHERE o.bucket = b.bucket AND o.cell_id <> (SELECT c.cell_id FROM {cell}.payment_cells c WHERE c.here)
            AND (NOT b.mine OR p.created_at <= o.stored_at)))
      AND NOT EXISTS (
        -- Its key went along with the bucket, and no other cell has taken that without keys since.
        SELECT FROM {cell}.payment_packed_participants m
        JOIN {cell}.payment_bucket_moves v ON v.bucket = m.bucket AND v.version = m.version
        JOIN {cell}.payment_cell_changes c ON c.bucket = m.bucket AND c.version = m.version AND c.digest = v.digest
        JOIN {cell}.payment_outbox_keys k ON k.outbox_id = p.outbox_id AND k.sequence_id < m.next_sequence_id
        WHERE m.participant_id = p.participant_id AND NOT EXISTS (
          SELECT FROM {cell}.payment_cell_changes s
          WHERE s.bucket = m.bucket AND s.version >= m.version AND s.settles
            AND s.cell_id <> (SELECT c.cell_id FROM {cell}.payment_cells c WHERE c.here)))
      AND NOT EXISTS (SELECT FROM {cell}.payment_paused_participants h WHERE h.participant_id = p.participant_id);
    IF foreigners.n > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('%s pending payments are of participants of other cells, or of ones that another cell had meanwhile, such as %s: the same keys may be enqueued there',
          foreigners.n, quote_literal(foreigners.first)),
        HINT = 'Pause these participants here (railhead participant pause), repeat this, compare each payment with the '
          'other cell, and cancel it here if that has enqueued it, too. One that it answers with ELSEWHERE and the '
          'outbox_id of this cell is only here; with another outbox_id it is in a third cell, too.';
    END IF;
  END IF;
  INSERT INTO {cell}.payment_accepted_timelines (system_identifier, timeline, reason)
  VALUES (accept_timeline.system_identifier, accept_timeline.timeline, accept_timeline.reason)
  ON CONFLICT DO NOTHING;
  UPDATE {cell}.payment_outbox_suspensions s
  SET accepted_at = clock_timestamp(), accepted_by = session_user, reason = accept_timeline.reason
  WHERE s.suspension_id = suspended.suspension_id;
  INSERT INTO {cell}.payment_operator_log (act, subject, reason, detail)
  VALUES ('ACCEPT_TIMELINE', format('%s/%s', accept_timeline.system_identifier, accept_timeline.timeline),
    accept_timeline.reason,
    jsonb_strip_nulls(jsonb_build_object('suspension_id', suspended.suspension_id)));
  RETURN NEXT;
END
$$;
-- end of accept_timeline

-- function foreign_participants
CREATE OR REPLACE FUNCTION {cell}.foreign_participants() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT count(*)
  FROM {cell}.payment_cells h
  CROSS JOIN (SELECT {cell}.cell_bucket(s.participant_id) AS bucket FROM {cell}.participant_outbox_sequences s OFFSET 0) p
  JOIN {cell}.payment_buckets b ON b.bucket = p.bucket
  WHERE h.here AND (b.cell <> h.name OR NOT b.mine AND EXISTS (
    SELECT FROM {cell}.payment_cell_changes o WHERE o.bucket = b.bucket AND o.cell_id <> h.cell_id))
$$;
-- end of foreign_participants

-- function require_gate
CREATE OR REPLACE FUNCTION {cell}.require_gate(scope text, name text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF scope = 'cell' AND name = '*' THEN
    RETURN;
  ELSIF scope = 'rail' THEN
    IF NOT EXISTS (SELECT FROM {cell}.payment_rails r WHERE r.rail_type = require_gate.name
      AND r.profile_version IS NOT NULL) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
        coalesce(quote_literal(left(name, 64)), 'NULL')),
        HINT = 'Use a rail_type of payment_rails; the whole cell is scope cell, name *.';
    END IF;
  ELSIF scope = 'participant' THEN
    IF NOT EXISTS (SELECT FROM {cell}.participant_outbox_sequences s WHERE s.participant_id = require_gate.name)
      AND NOT EXISTS (SELECT FROM {cell}.payment_packed_participants p WHERE p.participant_id = require_gate.name)
      AND NOT EXISTS (SELECT FROM {cell}.payment_closed_gates g
        WHERE g.scope = 'participant' AND g.name = require_gate.name)
      AND NOT EXISTS (SELECT FROM {cell}.payment_buckets b
        WHERE b.bucket = {cell}.cell_bucket(require_gate.name) AND NOT b.mine) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'this participant has never enqueued anything here',
        HINT = 'Check the participant_id.';
    END IF;
  ELSE
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'there is no such gate',
      HINT = 'Scope and name are: rail and a rail_type, participant and a participant_id, or cell and *.';
  END IF;
END
$$;
-- end of require_gate

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
  SELECT s.* INTO same FROM {cell}.payment_outbox_suspensions s
  WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time() AND s.timeline = {cell}.server_timeline()
    AND s.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
    AND (s.cause IN ('LOG_WENT_BACK', 'ROWS_MISSING') AND looked_at <= s.opened_at
      OR suspend_outbox.cause NOT IN ('LOG_WENT_BACK', 'ROWS_MISSING'));
  IF FOUND THEN
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
  SELECT 'migration 34, serves 13'
$$;
-- end of schema_version
