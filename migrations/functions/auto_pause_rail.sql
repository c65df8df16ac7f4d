-- auto_pause_rail(rail_type text, reason text) -> boolean
--   Pauses a rail for a relayer, after the rail has refused our credentials, route or form for as
--   many consecutive calls and instructions as its profile allows. Its payments stay pending and
--   use no sends until an operator resumes the rail. Returns true if this call paused it, and false
--   if it was already paused or is unknown.
-- writes:  payment_rails, payment_operator_log.   locks: the rail's row.
-- called by: executor.
CREATE OR REPLACE FUNCTION {cell}.auto_pause_rail(rail_type text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  UPDATE {cell}.payment_rails r
  SET paused = true, auto_paused = true, paused_by = session_user, paused_at = clock_timestamp(),
    pause_reason = left(auto_pause_rail.reason, 500), updated_at = clock_timestamp()
  WHERE r.rail_type = auto_pause_rail.rail_type AND r.rail_type <> '*' AND NOT r.paused;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM {cell}.log_operator_act('PAUSE_RAIL', auto_pause_rail.rail_type, NULL, left(auto_pause_rail.reason, 500));
  RETURN true;
END
$$;
