-- require_settled_server(act text) -> void
--   Refuses an act of an operator that would be wrong for a payment of which a restore or a
--   failover has forgotten a send.
-- errors:  RH020 with what has to be done first.
-- reads:   payment_outbox_suspensions, payment_accepted_timelines, and what server_is_settled reads.   called by: operator functions.
CREATE OR REPLACE FUNCTION {cell}.require_settled_server(act text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  server CONSTANT text := (SELECT c.system_identifier::text FROM pg_control_system() c);
BEGIN
  IF {cell}.server_is_settled() THEN
    RETURN;
  END IF;
  -- A suspension that was restored from a backup is of another start: nothing has been compared on
  -- this one.
  IF EXISTS (
    SELECT FROM {cell}.payment_outbox_suspensions s
    WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time()
      AND s.timeline = {cell}.server_timeline())
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the database may have forgotten sends (a restore, a failover or a snapshot): %s has to wait until an operator has accepted the server', act),
      HINT = 'Compare with the rails, end what they executed with dead-letter resolve --executed, then: railhead '
        'timeline accept --since TIME --reason WHY, with the time since which lanes are suspended.';
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'RH020',
    MESSAGE = format('no relayer has confirmed that nothing is missing since %s: the database may have forgotten sends, and %s has to wait until one has',
      CASE
        WHEN {cell}.timeline_accepted_at(server, {cell}.server_timeline()) IS NOT NULL THEN 'the server was started'
        WHEN EXISTS (
          SELECT FROM {cell}.payment_accepted_timelines t
          WHERE t.system_identifier = server AND t.timeline = {cell}.server_timeline())
        THEN 'a dump was loaded, or the database was copied'
        ELSE 'the server was promoted, or these rows came to it: they were never accepted on this server and timeline' END,
      act),
    HINT = 'Start a relayer, or wait some seconds until one has checked the server, and repeat this. If lanes are '
      'suspended then, compare with the rails first.';
END
$$;
