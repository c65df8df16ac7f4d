-- outcome_feed_since(moment timestamptz) -> xid8
--   A transaction from which on outcome_feed has the rows that were written at this moment
--   or later, and some of before. Times follow the order of transactions but for those that
--   were under way for long: one that has ended by now, had written for longer than a minute
--   and began more than a minute before the moment may come before it.
-- errors:  55P03 after 5 s in which the archive is locked as a whole.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: outcome_place, api_events, take_event_endpoint, redeliver_events, readers.
CREATE OR REPLACE FUNCTION {cell}.outcome_feed_since(moment timestamptz) RETURNS xid8
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  low    bigint := 0;
  high   bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
  middle bigint;
  first  record;
BEGIN
  -- low: a row of a transaction below it was written before the moment, or there is none.
  WHILE low < high LOOP
    middle := low + (high - low) / 2;
    SELECT s.xact::text::bigint AS xact, s.created_at INTO first
    FROM {cell}.payment_outbox_attempts s
    WHERE s.state NOT IN ({claim_states}) AND s.xact >= middle::text::xid8
    ORDER BY s.xact
    LIMIT 1;
    IF NOT FOUND OR first.created_at >= $1 - interval '1 minute' THEN
      high := middle;
    ELSE
      low := greatest(first.xact, middle) + 1;
    END IF;
  END LOOP;
  -- What is under way now is told, however early it began.
  RETURN least(low::text::xid8, pg_snapshot_xmin(pg_current_snapshot()));
END
$$;
