-- require_durable_commit() -> void
--   Sets synchronous_commit for the transaction if the login has it at off or local: what the caller is told
--   has to survive a crash of the server and, where there is a synchronous standby, a failover. The setting
--   lasts until the transaction ends, except where a function of the caller's own, with SET synchronous_commit,
--   is around the call: it ends with that function.
-- reads, writes, locks: nothing.
-- called by: log_operator_act, require_durable_map, reveal_payload, record_late_outcome, suspend_outbox,
--          beat_callbacks, take_event_endpoint. The enqueue functions do the same.
CREATE OR REPLACE FUNCTION {cell}.require_durable_commit() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
END
$$;
