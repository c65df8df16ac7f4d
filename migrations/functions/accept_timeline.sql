-- accept_timeline(reason text) -> (system_identifier text, timeline bigint)
--   Says that sending may go on on this server after a failover or a restore.
--   Relayers that hold their lanes see it within seconds.
-- errors:  RH002 without a reason.
-- writes:  payment_accepted_timelines, payment_operator_log.   locks: nothing.
-- called by: operator.
CREATE OR REPLACE FUNCTION {cell}.accept_timeline(reason text)
RETURNS TABLE (system_identifier text, timeline bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  PERFORM {cell}.require_reason(accept_timeline.reason);
  SELECT s.system_identifier::text INTO accept_timeline.system_identifier FROM pg_control_system() s;
  timeline := ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint;
  INSERT INTO {cell}.payment_accepted_timelines (system_identifier, timeline, reason)
  VALUES (accept_timeline.system_identifier, accept_timeline.timeline, accept_timeline.reason)
  ON CONFLICT DO NOTHING;
  INSERT INTO {cell}.payment_operator_log (act, subject, reason)
  VALUES ('ACCEPT_TIMELINE', format('%s/%s', accept_timeline.system_identifier, accept_timeline.timeline), accept_timeline.reason);
  RETURN NEXT;
END
$$;
