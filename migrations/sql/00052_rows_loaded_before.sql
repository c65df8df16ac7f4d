-- Migration 52, rows loaded before. Binaries that need migration 13 or a newer one work on a cell that has it.

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
        MESSAGE = CASE
          WHEN {cell}.timeline_accepted_at(accept_timeline.system_identifier, accept_timeline.timeline) IS NOT NULL
          THEN 'the server was started, and no relayer has confirmed since that nothing is missing: what it may have '
            'forgotten is not known yet'
          WHEN EXISTS (
            SELECT FROM {cell}.payment_accepted_timelines t
            WHERE t.system_identifier = accept_timeline.system_identifier AND t.timeline = accept_timeline.timeline)
          THEN 'rows were accepted in other tables than these: a dump was loaded, or the database was copied, and no '
            'relayer has compared since: what may be missing is not known yet'
          ELSE 'these rows were never accepted on this server and timeline, and no relayer has compared since: what may '
            'be missing is not known yet' END,
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
    FROM (
      SELECT w.outbox_id, w.participant_id, w.created_at FROM {cell}.payment_outbox_pending w
      UNION ALL
      SELECT r.outbox_id, r.participant_id, r.created_at
      FROM {cell}.payment_outbox_claims c
      CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
      CROSS JOIN LATERAL (
        SELECT t.outbox_id, t.participant_id, t.created_at FROM {cell}.payment_outbox_keys t
        WHERE t.outbox_id = m.outbox_id LIMIT 1) r
      WHERE (SELECT true FROM {cell}.payment_outbox_attempts z WHERE z.outbox_id = m.outbox_id AND z.attempt_no > m.attempt_no AND z.state <> 'LATE_OUTCOME' LIMIT 1) IS NULL) p
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
      AND NOT EXISTS (SELECT FROM {cell}.payment_paused_participants h WHERE h.participant_id = p.participant_id
        AND h.paused_until IS NULL);
    IF foreigners.n > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('%s payments that are pending or claimed are of participants of other cells, or of ones that another cell had meanwhile, such as %s: the same keys may be enqueued there',
          foreigners.n, quote_literal(foreigners.first)),
        HINT = 'Pause these participants here without an end (railhead participant pause), repeat this, compare each '
          'payment with the other cell, and cancel it here if that has enqueued it, too. One that it answers with '
          'ELSEWHERE and the outbox_id of this cell is only here; with another outbox_id it is in a third cell, too.';
    END IF;
  END IF;
  -- A row that says that the cell was made here may be there, and count no longer.
  INSERT INTO {cell}.payment_accepted_timelines (system_identifier, timeline, database_oid, table_oid, reason)
  SELECT accept_timeline.system_identifier, accept_timeline.timeline, {cell}.database_oid(),
    '{cell}.payment_accepted_timelines'::regclass, accept_timeline.reason
  WHERE {cell}.timeline_accepted_at(accept_timeline.system_identifier, accept_timeline.timeline) IS NULL
  ON CONFLICT DO NOTHING;
  UPDATE {cell}.payment_outbox_suspensions s
  SET accepted_at = clock_timestamp(), accepted_by = session_user, reason = accept_timeline.reason
  WHERE s.suspension_id = suspended.suspension_id;
  PERFORM {cell}.log_operator_act('ACCEPT_TIMELINE',
    format('%s/%s', accept_timeline.system_identifier, accept_timeline.timeline), NULL, accept_timeline.reason,
    jsonb_strip_nulls(jsonb_build_object('suspension_id', suspended.suspension_id)));
  RETURN NEXT;
END
$$;
-- end of accept_timeline

-- function server_is_settled
CREATE OR REPLACE FUNCTION {cell}.server_is_settled() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT NOT EXISTS (SELECT FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL)
      AND {cell}.timeline_accepted_at((SELECT c.system_identifier::text FROM pg_control_system() c),
        {cell}.server_timeline()) IS NOT NULL
      AND (
        EXISTS (
          SELECT FROM {cell}.outbox_heartbeats h
          WHERE h.vouched AND h.kind IN ('relayer', 'reaper') AND h.server_started_at = pg_postmaster_start_time())
        OR EXISTS (
          SELECT FROM {cell}.payment_outbox_suspensions s
          WHERE s.accepted_at <= clock_timestamp() AND s.server_started_at = pg_postmaster_start_time())
        OR NOT EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.kind = 'relayer')));
END
$$;
-- end of server_is_settled

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
-- end of suspend_outbox

-- function timeline_accepted_at
CREATE OR REPLACE FUNCTION {cell}.timeline_accepted_at(system_identifier text, timeline bigint) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT t.accepted_at
  FROM {cell}.payment_accepted_timelines t
  WHERE t.system_identifier = $1 AND t.timeline = $2 AND t.table_oid = t.tableoid
    AND t.database_oid = {cell}.database_oid()
    AND (NOT t.made OR NOT EXISTS (
      SELECT FROM {cell}.payment_accepted_timelines o
      WHERE o.table_oid <> o.tableoid OR o.database_oid <> {cell}.database_oid()))
$$;
-- end of timeline_accepted_at

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 52, serves 13'
$$;
-- end of schema_version

-- The row of a cell that was made here is known by its reason, which its first migration writes. An operator's
-- acceptance is another row. What is loaded without the OIDs of its tables, as from a dump of before migration 48,
-- counts as accepted in others. The column is added without a new copy of the table: a component that waits for the
-- lock with the snapshot of before would find that copy empty, and open a suspension.
ALTER TABLE {cell}.payment_accepted_timelines
  ADD COLUMN made boolean NOT NULL DEFAULT false,
  ALTER COLUMN database_oid SET DEFAULT 0,
  ALTER COLUMN table_oid SET DEFAULT 0,
  DROP CONSTRAINT payment_accepted_timelines_pk,
  ADD CONSTRAINT payment_accepted_timelines_pk PRIMARY KEY (system_identifier, timeline, database_oid, table_oid, made);
ALTER TABLE {cell}.payment_accepted_timelines DISABLE TRIGGER payment_accepted_timelines_append_only;
UPDATE {cell}.payment_accepted_timelines SET made = true WHERE reason = 'the cell was made on this server';
ALTER TABLE {cell}.payment_accepted_timelines ENABLE ALWAYS TRIGGER payment_accepted_timelines_append_only;
COMMENT ON COLUMN {cell}.payment_accepted_timelines.made IS
  'Whether the row says that the cell was made on this server. It counts while no row is of other tables.';

-- Migration 48 has taken the rows that it found for those that were accepted, also where they came from a dump of
-- before, or with a copy of the database. What was written in place has the transaction that wrote it as xmin, which
-- neither freezing nor a standby changes. A claim also stores that transaction, and its statement runs in no
-- subtransaction. So rows were loaded if none of the newest claims has its own transaction as xmin. Where there is no
-- claim, they were if migrations, each of which is a transaction, have one in common. A copied database is newer than
-- its tables, and has claimed nothing. Then nothing counts as accepted or compared but what was since migration 48.
DO $$
DECLARE
  claims bigint;
  in_place bigint;
  newest numeric; -- the transaction of the newest claim
  loaded boolean;
  before timestamptz := 'infinity'; -- when migration 48 was applied
BEGIN
  PERFORM set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true);
  SELECT count(*), count(*) FILTER (WHERE c.xmin::text::numeric = mod(c.xact::text::numeric, 4294967296)),
    max(c.xact::text::numeric)
  INTO claims, in_place, newest
  FROM (
    (SELECT a.outbox_id FROM {cell}.payment_outbox_attempts a ORDER BY a.outbox_id DESC, a.attempt_no DESC LIMIT 1000)
    UNION
    (SELECT a.outbox_id FROM {cell}.payment_outbox_attempts a
    WHERE a.state NOT IN ('DISPATCHING', 'INQUIRING') AND a.xact < pg_snapshot_xmax(pg_current_snapshot())
    ORDER BY a.xact DESC LIMIT 1000)) p
  JOIN {cell}.payment_outbox_attempts c ON c.outbox_id = p.outbox_id
  WHERE c.state IN ('DISPATCHING', 'INQUIRING') AND c.xact IS NOT NULL;
  loaded := in_place = 0 AND claims > 0 OR EXISTS (
    SELECT FROM pg_database d
    WHERE d.oid = {cell}.database_oid() AND d.oid > '{cell}.payment_outbox_attempts'::regclass::oid
      AND (newest IS NULL OR newest < pg_current_xact_id()::text::numeric - age(d.xmin)));
  IF to_regclass('{cell}.schema_migrations') IS NOT NULL THEN
    EXECUTE $sql$
      SELECT $1 OR $2 = 0 AND count(*) > count(DISTINCT m.xmin::text),
        coalesce(max(m.tstamp) FILTER (WHERE m.version_id = 48), 'infinity')
      FROM {cell}.schema_migrations m
      WHERE m.version_id <= 48
    $sql$ INTO loaded, before USING loaded, claims;
  END IF;
  IF loaded THEN
    ALTER TABLE {cell}.payment_accepted_timelines DISABLE TRIGGER payment_accepted_timelines_append_only;
    UPDATE {cell}.payment_accepted_timelines SET table_oid = 0, database_oid = 0
    WHERE table_oid = tableoid AND accepted_at < before;
    ALTER TABLE {cell}.payment_accepted_timelines ENABLE ALWAYS TRIGGER payment_accepted_timelines_append_only;
    ALTER TABLE {cell}.payment_cell_checks DISABLE TRIGGER payment_cell_checks_append_only;
    UPDATE {cell}.payment_cell_checks SET table_oid = 0, database_oid = 0
    WHERE table_oid = tableoid AND checked_at < before;
    ALTER TABLE {cell}.payment_cell_checks ENABLE ALWAYS TRIGGER payment_cell_checks_append_only;
    UPDATE {cell}.payment_outbox_rules SET confirmed_table = 0, confirmed_start = NULL WHERE confirmed_table = tableoid;
  END IF;
END
$$;
