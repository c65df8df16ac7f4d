-- redeliver_events(endpoint_id text, since timestamptz, reason text) -> integer
--   Makes all events of payment_event_retries of an endpoint due at once, those that need an
--   operator too, and ends its pause. With since, every event from that time on is delivered again;
--   earlier events that are not delivered yet are not skipped. Returns the number of events of
--   payment_event_retries.
-- errors:  RH002 without a reason, RH010 no such endpoint, 55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_attempts, payment_outbox_suspensions, the catalog.
-- writes:  payment_event_endpoints, payment_event_retries, payment_operator_log.
-- locks:   the endpoint's row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.redeliver_events(endpoint_id text, since timestamptz, reason text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
SET datestyle = 'ISO, YMD'
AS $$
#variable_conflict use_column
DECLARE
  waited integer;
  asked  {cell}.payment_event_endpoints;
  first  xid8;
BEGIN
  PERFORM {cell}.require_reason($3);
  -- The deliveries that a worker has in progress belong to the earlier epoch, and are not noted.
  UPDATE {cell}.payment_event_endpoints e SET epoch = e.epoch + 1, paused_at = NULL, pause_reason = NULL
    WHERE e.endpoint_id = $1 COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such endpoint',
      HINT = 'See them all: railhead events endpoints.';
  END IF;
  IF $2 IS NOT NULL THEN
    SELECT e.* INTO asked FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 COLLATE "C";
    first := {cell}.outcome_feed_since($2);
    -- The cursor never moves forward: earlier events that are not delivered yet would be skipped.
    UPDATE {cell}.payment_event_endpoints e
    SET place_system = s.system_identifier::text, place_xact = first, place_outbox_id = NULL, place_attempt_no = NULL,
      place_attempt_id = NULL
    FROM pg_control_system() s
    CROSS JOIN {cell}.outcome_place(asked.place_xact, asked.place_outbox_id, asked.place_attempt_no,
      asked.place_attempt_id, asked.place_system) p
    WHERE e.endpoint_id = $1 COLLATE "C" AND first <= p.to_xact;
  END IF;
  UPDATE {cell}.payment_event_retries r SET next_at = clock_timestamp(), tries = 0 WHERE r.endpoint_id = $1 COLLATE "C";
  GET DIAGNOSTICS waited = ROW_COUNT;
  PERFORM {cell}.log_operator_act('REDELIVER_EVENTS', $1, NULL, $3, jsonb_strip_nulls(jsonb_build_object('since', $2)));
  RETURN waited;
END
$$;
