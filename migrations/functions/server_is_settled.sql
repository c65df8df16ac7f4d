-- server_is_settled() -> boolean
--   Whether the rows of this cell are known to be complete: no suspension is open; the server and
--   timeline of this session were accepted, with the tables that hold the rows now (timeline_accepted_at);
--   and a relayer or a reaper has compared this start of the server
--   with its memory (no other component has one), or an operator has accepted it since. A cell on which no relayer has run has
--   sent nothing. While the rows are not known to be complete, a payment that seems not to have
--   been sent may have been sent, and must not be ended for that reason.
-- reads:   payment_outbox_suspensions, outbox_heartbeats, and what timeline_accepted_at reads.   locks: nothing.
-- called by: executor (before it expires an instruction), callbacks and readers (before
--          they report that a row does not exist), owner's functions.
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
