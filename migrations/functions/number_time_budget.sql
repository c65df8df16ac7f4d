-- number_time_budget() -> trigger
--   Numbers the versions of the time budget: each change of it, by any login, is the next version,
--   and nothing else changes the number.
-- reads, writes, locks: nothing.   called by: a trigger of payment_outbox_settings.
CREATE OR REPLACE FUNCTION {cell}.number_time_budget() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  NEW.budget_version := OLD.budget_version + CASE
    WHEN (NEW.claim_timeout_ms, NEW.start_within_ms, NEW.record_within_ms, NEW.drain_ms, NEW.heartbeat_stale_ms)
      IS DISTINCT FROM (OLD.claim_timeout_ms, OLD.start_within_ms, OLD.record_within_ms, OLD.drain_ms,
        OLD.heartbeat_stale_ms)
    THEN 1 ELSE 0 END;
  RETURN NEW;
END
$$;
