-- api_payments(token_sha256 bytea, certificate bytea, outbox_ids uuid[])
--   -> (item integer, outbox_id uuid, instruction_id text, participant_id text, idempotency_key text,
--       on_behalf_of text,
--       and the other columns of payment_status_batch)
--   The status of instructions of the token's participants: one row for each id, in the order of
--   the ids and numbered from 1. If the id is unknown, or is another participant's, every column
--   but item is null. idempotency_key is the caller's own key. An instruction that was enqueued in
--   another cell, before its participant was moved to this one, has the state ELSEWHERE, and of the
--   status only sequence_id and created_at; its idempotency_key is null if it was an HTTP caller's.
-- errors:  RH030 the token is not in force, RH031 it is not for reading, RH005 more than 1,000 ids,
--          25001 above READ COMMITTED.
-- reads:   payment_api_tokens, payment_api_calls, payment_outbox_keys, and what status_of_payments and
--          carried_payments read.
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
  other uuid[]; -- the ids that this cell has no instruction of
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
  other := ARRAY(
    SELECT CASE WHEN asked.mine IS NULL THEN asked.outbox_id END
    FROM unnest(outbox_ids, mine) WITH ORDINALITY AS asked(outbox_id, mine, n)
    ORDER BY asked.n);
  RETURN QUERY
  SELECT s.item, coalesce(s.outbox_id, e.outbox_id), coalesce(k.instruction_id, e.instruction_id),
    coalesce(k.participant_id, e.participant_id),
    coalesce(c.idempotency_key, k.idempotency_key,
      CASE WHEN e.idempotency_key !~ '^api-[0-9a-f]{64}$' THEN e.idempotency_key END),
    c.on_behalf_of, coalesce(s.sequence_id, e.sequence_id), coalesce(s.created_at, e.created_at),
    CASE WHEN e.outbox_id IS NULL THEN s.state ELSE 'ELSEWHERE' END,
    s.certainty, s.attempts, s.changed_at, s.next_attempt_at,
    s.error_code, s.rail_code, s.rail_reference, s.waits_for_person
  FROM {cell}.status_of_payments(mine) s
  LEFT JOIN LATERAL (
    SELECT o.instruction_id, o.participant_id, o.idempotency_key FROM {cell}.payment_outbox_keys o
    WHERE o.outbox_id = s.outbox_id LIMIT 1) k ON true
  LEFT JOIN LATERAL (
    SELECT o.idempotency_key, o.on_behalf_of FROM {cell}.payment_api_calls o WHERE o.outbox_id = s.outbox_id
      LIMIT 1) c ON true
  LEFT JOIN {cell}.carried_payments(token.participants, other) e ON e.item = s.item
  ORDER BY s.item;
END
$$;
