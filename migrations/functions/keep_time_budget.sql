-- keep_time_budget() -> trigger
--   Refuses a time budget, or a profile in force, under which a call could outlive its claim:
--   start_within + the longest call + record_within + drain must be less than claim_timeout, as in
--   outbox.TimeBudget.Holds. The function locks the row of settings, so that of two concurrent
--   changes the second is checked against the first.
-- errors:  RH002 with the sum.
-- reads:   payment_outbox_settings, payment_rails, payment_rail_profiles.   locks: the row of payment_outbox_settings.
-- called by: triggers of payment_outbox_settings and payment_rails.
CREATE OR REPLACE FUNCTION {cell}.keep_time_budget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  s {cell}.payment_outbox_settings;
  longest record;
BEGIN
  SELECT g.* INTO STRICT s FROM {cell}.payment_outbox_settings g WHERE g.singleton FOR NO KEY UPDATE;
  SELECT r.rail_type, p.version, {cell}.call_budget_ms(p.profile) AS call_ms INTO longest
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  ORDER BY 3 DESC, 1
  LIMIT 1;
  IF longest.call_ms + s.start_within_ms + s.record_within_ms + s.drain_ms >= s.claim_timeout_ms THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('start_within %s ms + a call of rail %s (profile version %s) %s ms + record_within %s ms + drain %s ms = %s ms, must be less than claim_timeout %s ms',
        s.start_within_ms, longest.rail_type, longest.version, trim_scale(longest.call_ms), s.record_within_ms,
          s.drain_ms,
        trim_scale(longest.call_ms + s.start_within_ms + s.record_within_ms + s.drain_ms), s.claim_timeout_ms),
      HINT = 'The reaper would recover a claim whose worker is still calling the rail. Shorten the timeouts of the '
        'profile '
        '(railhead rail apply), or set a longer claim timeout (railhead settings set claim_timeout VALUE).';
  END IF;
  RETURN NULL;
END
$$;
