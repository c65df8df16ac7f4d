-- server_is_settled() -> boolean
--   Whether the rows of this cell are known to be all that was committed: no
--   suspension is open, and the server and timeline that this session is on were
--   accepted. While they are not, a payment that looks as if it had never been sent
--   may have been, and nothing may be ended on that.
-- reads:   payment_outbox_suspensions, payment_accepted_timelines.   locks: nothing.
-- called by: executor (before it ends anything by expiry), owner's functions.
CREATE OR REPLACE FUNCTION {cell}.server_is_settled() RETURNS boolean
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT NOT EXISTS (SELECT FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL)
    AND EXISTS (
      SELECT FROM {cell}.payment_accepted_timelines t
      WHERE t.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
        AND t.timeline = {cell}.server_timeline())
$$;
