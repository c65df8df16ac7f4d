-- pause_rail(rail_type text, reason text) -> boolean
--   Stops claims of a rail, or of everything ('*'). What is in flight goes on.
--   True if it was not paused before.
-- errors:  RH002 without a reason, RH003 unknown rail,
--          55P03 after 5 s of waiting for a lock.
-- writes:  payment_rails, payment_operator_log.   locks: the rail's row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.pause_rail(rail_type text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was boolean;
BEGIN
  PERFORM {cell}.require_reason(pause_rail.reason);
  SELECT r.paused INTO was FROM {cell}.payment_rails r WHERE r.rail_type = pause_rail.rail_type FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell', quote_literal(left(pause_rail.rail_type, 64))),
      HINT = 'Use a rail_type of payment_rails, or * for everything.';
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = true, paused_by_itself = false, paused_by = session_user, paused_at = clock_timestamp(),
    pause_reason = left(pause_rail.reason, 500), updated_at = clock_timestamp()
  WHERE r.rail_type = pause_rail.rail_type;
  PERFORM {cell}.log_operator_act('PAUSE_RAIL', pause_rail.rail_type, NULL, pause_rail.reason);
  RETURN NOT was;
END
$$;
