-- outcome_place(xact xid8, outbox_id uuid, attempt_no integer, attempt_id uuid, system_identifier text)
--   -> (xact xid8, outbox_id uuid, attempt_no integer, went_back boolean)
--   Where a reader of outcome_feed goes on that had come to this row of the archive; null
--   xact: at the first row. Where the row is not there, or is another's, a failover or a
--   restore has forgotten it, and what the reader was told after some moment is not in
--   these rows: it goes back to an hour before that moment, and is told some rows again. No
--   row that was written since can stand before that: each was written later, by clocks (of
--   the worker that made the row's id, and of both servers) that differ by less. On another server than the row was read from
--   (system_identifier) transactions count anew, and it goes back as well.
--   The row of a month that has left the archive is taken for what it was.
-- errors:  55P03 after 5 s in which the archive is locked as a whole.
-- reads:   payment_outbox_attempts, payment_outbox_suspensions, the catalog.
-- locks:   nothing.   called by: api_events, event_deliveries, redeliver_events, readers.
CREATE OR REPLACE FUNCTION {cell}.outcome_place(xact xid8, outbox_id uuid, attempt_no integer, attempt_id uuid, system_identifier text,
  OUT to_xact xid8, OUT to_outbox_id uuid, OUT to_attempt_no integer, OUT went_back boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  none CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
  same CONSTANT boolean := (SELECT s.system_identifier::text = $5 FROM pg_control_system() s);
BEGIN
  went_back := false;
  to_xact := coalesce($1, '0'::xid8);
  to_outbox_id := coalesce($2, none);
  to_attempt_no := coalesce($3, 0);
  IF ($4 IS NULL OR $4 = none) AND ($5 IS NULL OR same) THEN
    RETURN;
  ELSIF $4 IS NULL OR $4 = none THEN -- the beginning of another server's feed
    went_back := true;
    to_xact := '0'::xid8;
    RETURN;
  ELSIF same AND EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $2 AND a.attempt_no = $3 AND a.attempt_id = $4 AND a.xact = $1) OR same AND {cell}.left_the_archive($2)
  THEN
    RETURN;
  END IF;
  went_back := true;
  to_xact := {cell}.outcome_feed_since(least({cell}.uuidv7_time($4), (
    -- What the old server went on to tell after this one had taken over.
    SELECT min(s.opened_at) FROM {cell}.payment_outbox_suspensions s
    WHERE s.opened_at > {cell}.uuidv7_time($4) - interval '1 day')) - interval '1 hour');
  to_outbox_id := none;
  to_attempt_no := 0;
END
$$;
