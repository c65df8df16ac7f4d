-- outcome_feed_since(moment timestamptz) -> xid8
--   A transaction number from which outcome_feed has all rows that were written at the given time
--   or later, and some earlier ones. Times follow the order of transactions, except for long
--   transactions: a row may come before it if its transaction has ended, had been writing for more
--   than a minute, and began more than a minute before the given time.
-- errors:  55P03 if the archive stays locked for 5 s.
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
  -- Invariant: rows of transactions below low were written before the given time, or there are
  -- none.
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
  -- Transactions that are in progress now are included, however early they began.
  RETURN least(low::text::xid8, pg_snapshot_xmin(pg_current_snapshot()));
END
$$;
