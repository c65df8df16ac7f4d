-- payment_status_batch(instruction_ids text[], idempotency_keys text[])
--   -> (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
--       certainty text, attempts integer, changed_at timestamptz, next_attempt_at timestamptz,
--       error_code text, rail_code text, rail_reference text, waits_for_person boolean)
--   One row for each pair, in the order of the pairs and numbered from 1. If payment_status would
--   return no row, every column but item is null. state is that of payment_outbox_state and
--   certainty that of payment_certainty. attempts counts the rows of the archive, and changed_at is
--   the time of the last one. The codes are those of the last row that is a state of the payment.
--   rail_reference is the rail's own reference, or that of the operator's evidence on which an
--   execution rests (rests_on_evidence). waits_for_person: a dead letter is open.
-- errors:  RH002 the arrays differ in length, RH005 more than 1,000 pairs.
-- reads:   payment_outbox_keys, the catalog, and what status_of_payments reads.
-- locks:   nothing.   called by: ingest, payment_status.
CREATE OR REPLACE FUNCTION {cell}.payment_status_batch(instruction_ids text[], idempotency_keys text[])
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  logins text[] := {cell}.logins_sharing_a_role(session_user);
BEGIN
  IF cardinality(instruction_ids) IS DISTINCT FROM cardinality(idempotency_keys) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'instruction_ids and idempotency_keys differ in length',
      HINT = 'Give as many keys as ids, in the same order.';
  END IF;
  IF cardinality(instruction_ids) > 1000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('%s pairs are more than 1000',
      cardinality(instruction_ids)),
      HINT = 'Ask about fewer at once.';
  END IF;
  RETURN QUERY
  SELECT s.item, s.outbox_id, s.sequence_id, s.created_at, s.state, s.certainty, s.attempts, s.changed_at,
    s.next_attempt_at, s.error_code, s.rail_code, s.rail_reference, s.waits_for_person
  FROM {cell}.status_of_payments(ARRAY(
    SELECT k.outbox_id
    FROM unnest(instruction_ids, idempotency_keys) WITH ORDINALITY AS asked(instruction_id, idempotency_key, n)
    LEFT JOIN LATERAL (
      SELECT o.outbox_id
      FROM {cell}.payment_outbox_keys o
      WHERE o.instruction_id = asked.instruction_id COLLATE "C"
        AND o.idempotency_key = asked.idempotency_key COLLATE "C"
        AND o.enqueued_by = ANY (logins)
      LIMIT 1) k ON true
    ORDER BY asked.n)) s
  ORDER BY s.item;
END
$$;
