-- pause_rail(rail_type text, reason text [, until timestamptz]) -> boolean
--   Stops claims of a rail, or of everything ('*'). Calls in flight continue. The reaper ends the
--   pause at until; if until is null, an operator has to. Returns true if the rail was not paused
--   before. A pause that is in force keeps its login and time. Its reason then has both
--   (text_of_stops), and it ends at the later of the two ends, or never if one of them is null.
-- errors:  RH002 without a reason, or with an until that is past or more than 366 days ahead;
--          RH003 unknown rail, 55P03 after 5 s of waiting for a lock.
-- writes:  payment_rails, payment_operator_log.   locks: the rail's row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.pause_rail(rail_type text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
DECLARE
  was boolean;
  asked jsonb;
BEGIN
  PERFORM {cell}.require_reason(pause_rail.reason);
  PERFORM {cell}.require_end(pause_rail.until);
  SELECT r.paused, {cell}.add_stop(r.stops, CASE WHEN r.paused THEN r.pause_reason END, r.paused_by, pause_rail.reason)
  INTO was, asked
  FROM {cell}.payment_rails r WHERE r.rail_type = pause_rail.rail_type FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
      quote_literal(left(pause_rail.rail_type, 64))),
      HINT = 'Use a rail_type of payment_rails, or * for everything.';
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = true, paused_by = CASE WHEN was THEN r.paused_by ELSE session_user END,
    paused_at = CASE WHEN was THEN r.paused_at ELSE clock_timestamp() END,
    pause_reason = {cell}.text_of_stops(asked), stops = asked,
    paused_until = CASE
      WHEN NOT was OR r.paused_until < pause_rail.until OR pause_rail.until IS NULL THEN pause_rail.until
      ELSE r.paused_until END,
    updated_at = clock_timestamp()
  WHERE r.rail_type = pause_rail.rail_type;
  PERFORM {cell}.log_operator_act('PAUSE_RAIL', pause_rail.rail_type, NULL, pause_rail.reason,
    jsonb_strip_nulls(jsonb_build_object('until', pause_rail.until)));
  RETURN NOT was;
END
$$;
