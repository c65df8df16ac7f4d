-- given_up_events(of_endpoint text) -> setof (endpoint_id text, events integer, mark bigint)
--   The events of an endpoint that are not delivered again without an operator: how many there are, and a mark
--   that other events have otherwise. Of every endpoint that has such events, if of_endpoint is null. With both an
--   operator discards the events that a page has shown, and no others (discard_events).
-- errors:  55P03 after 5 s of waiting for a lock.
-- reads:   payment_event_retries.   locks: nothing.   called by: operator, readonly, auditor.
CREATE OR REPLACE FUNCTION {cell}.given_up_events(of_endpoint text)
RETURNS TABLE (endpoint_id text, events integer, mark bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT r.endpoint_id, count(*)::integer, bit_xor(hashtextextended(format('%s %s', r.outbox_id, r.attempt_no), 0))
  FROM {cell}.payment_event_retries r
  WHERE NOT isfinite(r.next_at) AND ($1 IS NULL OR r.endpoint_id = $1 COLLATE "C")
  GROUP BY r.endpoint_id;
END
$$;
