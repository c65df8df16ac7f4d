-- forgotten_calls_until() -> timestamptz
--   Until when what is enqueued may repeat a call that a restore forgot: without end while
--   a suspension is open. Null: nothing was ever forgotten.
-- reads:   payment_outbox_suspensions, payment_outbox_settings.   locks: nothing.
-- called by: executor, for claims: a send of what was enqueued before may be forgotten.
CREATE OR REPLACE FUNCTION {cell}.forgotten_calls_until() RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT max(coalesce(s.accepted_at + g.repeated_within, 'infinity'))
  FROM {cell}.payment_outbox_suspensions s
  CROSS JOIN {cell}.payment_outbox_settings g
$$;
