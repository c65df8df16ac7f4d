-- accept_timeline(reason text) -> (system_identifier text, timeline bigint)
--   Says that an operator has compared with the rails what a failover, a restore or
--   a snapshot may have forgotten: the open suspension ends, and this server and
--   timeline are accepted. Services see it within seconds.
--   A suspension of another start of the server, or of another timeline, is not ended: what
--   is there now is not what the operator compared. Nor is one accepted before any
--   component has compared it: whether something is missing is not known then.
-- errors:  RH002 without a reason, RH020 while a suspension is open that is not of this start
--          of the server, and where no component has compared this start, 55P03 after 5 s
--          of waiting for a lock.
-- writes:  payment_outbox_suspensions, payment_accepted_timelines, payment_operator_log.
-- locks:   the open suspension's row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.accept_timeline(reason text)
RETURNS TABLE (system_identifier text, timeline bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  ended uuid;
BEGIN
  PERFORM {cell}.require_reason(accept_timeline.reason);
  SELECT s.system_identifier::text INTO accept_timeline.system_identifier FROM pg_control_system() s;
  accept_timeline.timeline := {cell}.server_timeline();
  PERFORM FROM {cell}.payment_outbox_suspensions s
  WHERE s.accepted_at IS NULL
    AND (s.system_identifier, s.timeline, s.server_started_at)
      IS DISTINCT FROM (accept_timeline.system_identifier, accept_timeline.timeline, pg_postmaster_start_time())
  FOR UPDATE;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the server was started or promoted after the suspension was opened, and no relayer has looked at it since: it may have forgotten more than you have compared',
      HINT = 'Start a relayer, or wait some seconds until one has looked. Then compare with the rails what was sent since known_until of payment_outbox_suspensions, and repeat this.';
  END IF;
  IF NOT EXISTS (SELECT FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL)
    AND EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.kind = 'relayer') AND NOT {cell}.server_is_settled()
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the server was started or promoted, and no relayer has confirmed since that nothing is missing: what it may have forgotten is not known yet',
      HINT = 'Start a relayer, or wait until one has compared the server with what it remembers. If lanes are suspended then, compare with the rails what was sent since known_until of payment_outbox_suspensions, and repeat this.';
  END IF;
  INSERT INTO {cell}.payment_accepted_timelines (system_identifier, timeline, reason)
  VALUES (accept_timeline.system_identifier, accept_timeline.timeline, accept_timeline.reason)
  ON CONFLICT DO NOTHING;
  UPDATE {cell}.payment_outbox_suspensions s
  SET accepted_at = clock_timestamp(), accepted_by = session_user, reason = accept_timeline.reason
  WHERE s.accepted_at IS NULL
  RETURNING s.suspension_id INTO ended;
  INSERT INTO {cell}.payment_operator_log (act, subject, reason, detail)
  VALUES ('ACCEPT_TIMELINE', format('%s/%s', accept_timeline.system_identifier, accept_timeline.timeline), accept_timeline.reason,
    jsonb_strip_nulls(jsonb_build_object('suspension_id', ended)));
  RETURN NEXT;
END
$$;
