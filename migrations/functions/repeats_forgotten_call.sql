-- repeats_forgotten_call(enqueued_at timestamptz) -> timestamptz
--   Whether the call of an instruction that was enqueued at this time may repeat one that a restore
--   forgot: it came after the newest moment up to which the data is complete, and before the end of
--   the time in which callers repeat calls. Returns the time when the last suspension was opened
--   for which that is so; null if there is none. An operator has compared the instructions that
--   were enqueued before.
-- reads:   payment_outbox_suspensions, payment_outbox_settings.   locks: nothing.
-- called by: executor (before it expires an instruction), readers, payment_certainty.
CREATE OR REPLACE FUNCTION {cell}.repeats_forgotten_call(enqueued_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT max(s.opened_at)
  FROM {cell}.payment_outbox_suspensions s
  CROSS JOIN {cell}.payment_outbox_settings g
  WHERE $1 >= least(s.known_until, s.opened_at) AND (s.accepted_at IS NULL OR $1 < s.accepted_at + g.repeated_within)
$$;
