-- status_of_payments(outbox_ids uuid[])
--   -> the columns of payment_status_batch
--   One row for each id, in the order of the ids and numbered from 1. If the id is null or unknown,
--   every column but item is null. The caller has to check whose the instructions are.
-- reads:   payment_outbox_keys, payment_outbox_attempts, payment_outbox_pending,
--          payment_dead_letters, payment_operator_log, and what payment_certainty and server_is_settled read.
-- locks:   nothing.   called by: payment_status_batch, api_payments, api_cancel_status.
CREATE OR REPLACE FUNCTION {cell}.status_of_payments(outbox_ids uuid[])
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  settled CONSTANT boolean := {cell}.server_is_settled();
BEGIN
  RETURN QUERY
  SELECT asked.n::integer, k.outbox_id, k.sequence_id, k.created_at,
    CASE WHEN k.outbox_id IS NOT NULL THEN {cell}.payment_outbox_state(k.outbox_id) END,
    {cell}.payment_certainty(k.outbox_id, settled),
    CASE WHEN k.outbox_id IS NOT NULL THEN coalesce(latest.attempt_no, 0) END,
    CASE WHEN k.outbox_id IS NOT NULL THEN coalesce(latest.created_at, k.created_at) END,
    nullif(p.next_attempt_at, 'infinity'), last.error_code, last.rail_code,
    coalesce(
      CASE WHEN last.state = 'DISPATCHED' THEN (
        SELECT l.detail ->> 'rail_reference' FROM {cell}.payment_operator_log l
        WHERE l.outbox_id = k.outbox_id AND l.act = 'RESOLVE' AND l.acted_at >= last.created_at
        ORDER BY l.acted_at DESC LIMIT 1) END,
      last.rail_reference, {cell}.last_rail_reference(k.outbox_id)),
    CASE WHEN k.outbox_id IS NOT NULL THEN EXISTS (
      SELECT FROM {cell}.payment_dead_letters d
      WHERE d.outbox_id = k.outbox_id AND d.status NOT IN ({closed_letters})) END
  FROM unnest(outbox_ids) WITH ORDINALITY AS asked(outbox_id, n)
  LEFT JOIN LATERAL (
    SELECT o.outbox_id, o.sequence_id, o.created_at
    FROM {cell}.payment_outbox_keys o WHERE o.outbox_id = asked.outbox_id LIMIT 1) k ON true
  LEFT JOIN LATERAL (
    SELECT w.next_attempt_at FROM {cell}.payment_outbox_pending w WHERE w.outbox_id = k.outbox_id LIMIT 1) p ON true
  LEFT JOIN LATERAL (
    SELECT a.attempt_no, a.created_at FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = k.outbox_id ORDER BY a.attempt_no DESC LIMIT 1) latest ON true
  LEFT JOIN LATERAL (
    SELECT a.state, a.created_at, a.error_code, a.rail_code, a.rail_reference FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = k.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) last ON true
  ORDER BY asked.n;
END
$$;
