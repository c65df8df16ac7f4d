-- resume_rail(rail_type text, reason text) -> boolean
--   Ends the pause of a rail, or of everything ('*'). Returns true if it was paused.
-- errors:  RH002 without a reason, RH003 unknown rail,
--          55P03 after 5 s of waiting for a lock.
-- writes:  payment_rails, payment_operator_log.   locks: the rail's row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.resume_rail(rail_type text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was boolean;
BEGIN
  PERFORM {cell}.require_reason(resume_rail.reason);
  SELECT r.paused INTO was FROM {cell}.payment_rails r WHERE r.rail_type = resume_rail.rail_type FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
      quote_literal(left(resume_rail.rail_type, 64))),
      HINT = 'Use a rail_type of payment_rails, or * for everything.';
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = false, auto_paused = false, paused_by = NULL, paused_at = NULL, pause_reason = NULL,
    paused_until = NULL, stops = NULL, updated_at = clock_timestamp()
  WHERE r.rail_type = resume_rail.rail_type;
  PERFORM {cell}.log_operator_act('RESUME_RAIL', resume_rail.rail_type, NULL, resume_rail.reason);
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  RETURN was;
END
$$;
