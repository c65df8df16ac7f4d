-- api_payments(token_sha256 bytea, certificate bytea, outbox_ids uuid[])
--   -> (item integer, outbox_id uuid, instruction_id text, participant_id text, idempotency_key text,
--       on_behalf_of text,
--       and the other columns of payment_status_batch)
--   The status of instructions of the token's participants: one row for each id, in the order of
--   the ids and numbered from 1. If the id is unknown, or is another participant's, every column
--   but item is null. idempotency_key is the caller's own key.
-- errors:  RH030 the token is not in force, RH031 it is not for reading, RH005 more than 1,000 ids.
-- reads:   payment_api_tokens, payment_api_calls, payment_outbox_keys, and what status_of_payments reads.
-- locks:   nothing.   called by: api, api_list.
CREATE OR REPLACE FUNCTION {cell}.api_payments(token_sha256 bytea, certificate bytea, outbox_ids uuid[])
RETURNS TABLE (item integer, outbox_id uuid, instruction_id text, participant_id text, idempotency_key text,
  on_behalf_of text,
  sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  token {cell}.payment_api_tokens := {cell}.require_api_token(token_sha256, certificate, 'READ', '');
  mine  uuid[];
BEGIN
  IF cardinality(outbox_ids) > 1000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('%s ids are more than 1000', cardinality(outbox_ids)),
      HINT = 'Ask about fewer at once.';
  END IF;
  mine := ARRAY(
    SELECT k.outbox_id
    FROM unnest(outbox_ids) WITH ORDINALITY AS asked(outbox_id, n)
    LEFT JOIN LATERAL (
      SELECT o.outbox_id FROM {cell}.payment_outbox_keys o
      WHERE o.outbox_id = asked.outbox_id AND o.participant_id = ANY (token.participants)
      LIMIT 1) k ON true
    ORDER BY asked.n);
  RETURN QUERY
  SELECT s.item, s.outbox_id, k.instruction_id, k.participant_id, coalesce(c.idempotency_key, k.idempotency_key),
    c.on_behalf_of, s.sequence_id, s.created_at, s.state, s.certainty, s.attempts, s.changed_at, s.next_attempt_at,
    s.error_code, s.rail_code, s.rail_reference, s.waits_for_person
  FROM {cell}.status_of_payments(mine) s
  LEFT JOIN LATERAL (
    SELECT o.instruction_id, o.participant_id, o.idempotency_key FROM {cell}.payment_outbox_keys o
    WHERE o.outbox_id = s.outbox_id LIMIT 1) k ON true
  LEFT JOIN LATERAL (
    SELECT o.idempotency_key, o.on_behalf_of FROM {cell}.payment_api_calls o WHERE o.outbox_id = s.outbox_id
      LIMIT 1) c ON true
  ORDER BY s.item;
END
$$;
