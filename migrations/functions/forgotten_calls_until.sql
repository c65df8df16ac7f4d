-- forgotten_calls_until() -> timestamptz
--   The time until which an enqueue may repeat a call that a restore forgot: infinity while a
--   suspension is open. Null if there was never a suspension.
-- reads:   payment_outbox_suspensions, payment_outbox_settings.   locks: nothing.
-- called by: give_buckets, freeze_bucket; executor, for claims: a send of an instruction that was enqueued before that time may be
--          forgotten.
CREATE OR REPLACE FUNCTION {cell}.forgotten_calls_until() RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT max(coalesce(s.accepted_at + g.repeated_within, 'infinity'))
  FROM {cell}.payment_outbox_suspensions s
  CROSS JOIN {cell}.payment_outbox_settings g
$$;
