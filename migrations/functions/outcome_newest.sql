-- outcome_newest() -> (xact xid8, outbox_id uuid, attempt_no integer, attempt_id uuid)
--   The last place that outcome_feed has now; nulls if it has none.
-- errors:  55P03 if the archive stays locked for 5 s.
-- reads:   payment_outbox_attempts.   locks: nothing.
-- called by: api_events, take_event_endpoint, readers.
CREATE OR REPLACE FUNCTION {cell}.outcome_newest(OUT xact xid8, OUT outbox_id uuid, OUT attempt_no integer,
  OUT attempt_id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  SELECT a.xact, a.outbox_id, a.attempt_no, a.attempt_id INTO xact, outbox_id, attempt_no, attempt_id
  FROM {cell}.payment_outbox_attempts a
  WHERE a.state NOT IN ({claim_states}) AND a.xact < pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY a.xact DESC, a.outbox_id DESC, a.attempt_no DESC
  LIMIT 1;
END
$$;
