-- outcome_place(xact xid8, outbox_id uuid, attempt_no integer, attempt_id uuid, system_identifier text)
--   -> (xact xid8, outbox_id uuid, attempt_no integer, went_back boolean)
--   The place from which a reader of outcome_feed continues whose cursor is this row of the
--   archive; if xact is null, the beginning of the feed.
--
--   If the row does not exist, or its number belongs to another row, a failover or a restore has
--   forgotten it, and the rows that the reader received after some time are not in this database.
--   The reader then goes back to one hour before that time and receives some rows again. No row
--   that was written since can come before that: each was written later, and the clocks involved
--   (that of the worker that made the row's id, and those of both servers) differ by less than an
--   hour. On a server other than the one from which the cursor comes (system_identifier),
--   transactions are numbered anew, and the reader goes back too.
--
--   The time is that in the row's id. The id of a callback's row has none (it is a digest, a UUID of
--   version 8): no time of it is known but that it was written after its instruction was enqueued.
--
--   A row of a month that has left the archive is assumed to be unchanged.
-- errors:  55P03 if the archive stays locked for 5 s.
-- reads:   payment_outbox_attempts, payment_outbox_suspensions, the catalog.
-- locks:   nothing.   called by: api_events, event_deliveries, redeliver_events, readers.
CREATE OR REPLACE FUNCTION {cell}.outcome_place(xact xid8, outbox_id uuid, attempt_no integer, attempt_id uuid,
  system_identifier text,
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
  since timestamptz;
BEGIN
  went_back := false;
  to_xact := coalesce($1, '0'::xid8);
  to_outbox_id := coalesce($2, none);
  to_attempt_no := coalesce($3, 0);
  IF ($4 IS NULL OR $4 = none) AND ($5 IS NULL OR same) THEN
    RETURN;
  ELSIF $4 IS NULL OR $4 = none THEN -- the cursor is at the beginning of another server's feed
    went_back := true;
    to_xact := '0'::xid8;
    RETURN;
  ELSIF same AND EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $2 AND a.attempt_no = $3 AND a.attempt_id = $4 AND a.xact = $1) OR same
      AND {cell}.left_the_archive($2)
  THEN
    RETURN;
  END IF;
  went_back := true;
  since := least(clock_timestamp(), {cell}.uuidv7_time(CASE WHEN get_byte(uuid_send($4), 6) >> 4 = 7 THEN $4
    ELSE coalesce($2, none) END));
  to_xact := {cell}.outcome_feed_since(least(since, (
    -- Rows that the old server delivered after this one had taken over.
    SELECT min(s.opened_at) FROM {cell}.payment_outbox_suspensions s
    WHERE s.opened_at > since - interval '1 day')) - interval '1 hour');
  IF same THEN
    to_xact := least(to_xact, $1);
  END IF;
  to_outbox_id := none;
  to_attempt_no := 0;
END
$$;
