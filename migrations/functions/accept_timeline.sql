-- accept_timeline(reason text, since timestamptz) -> (system_identifier text, timeline bigint)
--   Records that an operator has compared with the rails what a failover, a restore or a snapshot
--   may have forgotten. The open suspension ends, and this server and timeline are accepted.
--   Services notice it within seconds. Rows that are loaded
--   from a dump, or copied with the database, have to be accepted anew. since identifies the suspension that was compared, by its
--   opened_at to the second; it is null if no suspension is open.
--
--   A suspension of another start of the server or of another timeline is not ended, nor is one
--   that was opened or taken over after since: its rows are not those that the operator compared. A
--   server that no component has compared with its memory is not accepted either, because it is not
--   known yet whether rows are missing. In a directory of cells, a server that may have forgotten
--   something is accepted once its map was compared with those of the other cells (confirm_map), and
--   every participant of another cell of whom a payment is pending or claimed here is paused without an end. So is one
--   whose bucket went to another cell and came back, if the payment was stored here before this database knew of that,
--   or the bucket is not taken yet: the other cell may have stored the same key meanwhile. A payment that is claimed
--   may be returned to pending, and a pause with an end is ended by the reaper, whatever was compared until then.
-- errors:  RH002 without a reason, or without since while a suspension is open. RH020 if the open
--          suspension is of another time or of another start of the server; if none is open and
--          none of that time was accepted; or if no component has compared this start. RH020 in a
--          directory of cells, if the map was not compared, or payments of other cells are pending or claimed.
--          55P03 after 5 s of waiting for a lock.
-- reads:   outbox_heartbeats, what server_is_settled reads; payment_cells, what require_confirmed_map reads,
--          payment_buckets, payment_paused_participants, payment_packed_participants,
--          payment_bucket_moves, payment_cell_changes, payment_outbox_keys, and of a cell that is in a
--          directory every row of payment_outbox_pending and payment_outbox_claims.
-- writes:  payment_outbox_suspensions, payment_accepted_timelines, payment_operator_log.
-- locks:   the open suspension's row.   called by: operator.
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
      MESSAGE = 'the server was started or promoted after the suspension was opened, or that came back with a dump, and '
        'no relayer has checked the server since: it may have forgotten more than you have compared',
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
      WHERE {is_open m}) p
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
          'payment with the other cell, and cancel it here if that has enqueued it, too: the cancellation does not say '
          'that it was not paid, which only the other cell knows. One that it answers with '
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
