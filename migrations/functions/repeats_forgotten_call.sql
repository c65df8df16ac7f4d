-- repeats_forgotten_call(enqueued_at timestamptz) -> timestamptz
--   Whether the call of an instruction that was enqueued then may repeat one that a restore
--   forgot: it came after the newest moment that the data knows from before, and before the
--   time is over in which callers repeat calls. Returns when the last suspension was opened of
--   which that is so; null: of none. What was enqueued before, an operator has compared.
-- reads:   payment_outbox_suspensions, payment_outbox_settings.   locks: nothing.
-- called by: executor (before it ends anything by expiry), readers, payment_certainty.
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
