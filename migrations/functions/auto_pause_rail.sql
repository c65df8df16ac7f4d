-- auto_pause_rail(rail_type text, reason text) -> boolean
--   Pauses a rail for a relayer, after the rail has refused our credentials, route or form for as
--   many consecutive calls and instructions as its profile allows. Its payments stay pending and
--   use no sends until an operator resumes the rail. A pause of an operator that is in force keeps
--   its login and time; its reason then has both (text_of_stops), and it has no end any more. Returns
--   true if this call paused the rail or joined such a pause, and false if a relayer had already or
--   the rail is unknown.
-- errors:  RH002 as of acting_person.
-- writes:  payment_rails, payment_operator_log.   locks: the rail's row.
-- called by: executor.
CREATE OR REPLACE FUNCTION {cell}.auto_pause_rail(rail_type text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  asked jsonb;
BEGIN
  SELECT {cell}.add_stop(r.stops, CASE WHEN r.paused THEN r.pause_reason END, r.paused_by,
    left(auto_pause_rail.reason, 500)) INTO asked
  FROM {cell}.payment_rails r
  WHERE r.rail_type = auto_pause_rail.rail_type AND r.rail_type <> '*' AND NOT (r.paused AND r.auto_paused) FOR UPDATE;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = true, auto_paused = true, paused_by = CASE WHEN r.paused THEN r.paused_by ELSE session_user END,
    paused_at = CASE WHEN r.paused THEN r.paused_at ELSE clock_timestamp() END,
    pause_reason = {cell}.text_of_stops(asked), stops = asked, paused_until = NULL, updated_at = clock_timestamp()
  WHERE r.rail_type = auto_pause_rail.rail_type;
  PERFORM {cell}.log_operator_act('PAUSE_RAIL', auto_pause_rail.rail_type, NULL, left(auto_pause_rail.reason, 500));
  RETURN true;
END
$$;
