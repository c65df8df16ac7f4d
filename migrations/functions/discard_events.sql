-- discard_events(endpoint_id text, reason text) -> integer
--   Discards permanently the events of an endpoint that are not delivered again without an
--   operator. Later events of the same instructions are delivered. Callers can still read the
--   discarded events by GET /v1/events. Returns the number of discarded events. The operator log has it, and which
--   the first 100 of them were, in the order of their time.
-- errors:  RH002 without a reason, RH010 no such endpoint, 55P03 after 5 s of waiting for a lock.
-- writes:  payment_event_endpoints, payment_event_retries, payment_operator_log.
-- locks:   the endpoint's row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.discard_events(endpoint_id text, reason text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  given_up integer;
  named    jsonb;
BEGIN
  PERFORM {cell}.require_reason($2);
  -- The deliveries that a worker has in progress belong to the earlier epoch, and are not noted.
  UPDATE {cell}.payment_event_endpoints e SET epoch = e.epoch + 1 WHERE e.endpoint_id = $1 COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such endpoint',
      HINT = 'See them all: railhead events endpoints.';
  END IF;
  WITH gone AS (
    DELETE FROM {cell}.payment_event_retries r WHERE r.endpoint_id = $1 COLLATE "C" AND NOT isfinite(r.next_at)
    RETURNING r.created_at, r.outbox_id, r.attempt_no
  ),
  numbered AS (
    SELECT g.outbox_id, g.attempt_no, row_number() OVER (ORDER BY g.created_at, g.outbox_id, g.attempt_no) AS no
    FROM gone g
  )
  SELECT count(*)::integer, coalesce(jsonb_agg(jsonb_build_object('outbox_id', n.outbox_id, 'attempt_no', n.attempt_no)
    ORDER BY n.no) FILTER (WHERE n.no <= 100), '[]')
  INTO given_up, named
  FROM numbered n;
  PERFORM {cell}.log_operator_act('DISCARD_EVENTS', $1, NULL, $2, jsonb_build_object('events', given_up,
    'first', named));
  RETURN given_up;
END
$$;
