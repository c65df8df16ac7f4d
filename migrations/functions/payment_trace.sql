-- payment_trace(outbox_id uuid) -> text
--   The trace context of the call that enqueued the instruction, as JSON: traceparent and
--   tracestate of its headers, and no other header. For an instruction that is older than
--   payment_outbox_instructions, it is taken from the pending row or the latest claim. Null if none
--   of these rows has it.
-- reads:   payment_outbox_instructions, payment_outbox_pending, payment_outbox_attempts.
-- locks:   nothing.   called by: callbacks.
CREATE OR REPLACE FUNCTION {cell}.payment_trace(outbox_id uuid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object('traceparent', h.headers -> 'traceparent', 'tracestate',
    h.headers -> 'tracestate'))::text
  FROM (
    (SELECT p.headers
     FROM {cell}.payment_outbox_pending p
     WHERE p.outbox_id = $1 AND p.headers IS NOT NULL)
    UNION ALL
    (SELECT i.headers
     FROM {cell}.payment_outbox_instructions i
     WHERE i.outbox_id = $1)
    UNION ALL
    (SELECT a.headers
     FROM {cell}.payment_outbox_attempts a
     WHERE a.outbox_id = $1 AND a.headers IS NOT NULL
     ORDER BY a.attempt_no DESC
     LIMIT 1)
    LIMIT 1) h
$$;
