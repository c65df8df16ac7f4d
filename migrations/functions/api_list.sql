-- api_list(token_sha256 bytea, certificate bytea, participant_id text, after bigint, rows_max integer
--          [, instruction_id text, idempotency_key text])
--   -> as api_payments
--   Instructions of one participant of the token, in the order of their numbers, from the number
--   after the number after, at most rows_max of them (1 to 200). instruction_id restricts them to
--   that id, and idempotency_key to the instruction that was enqueued over HTTP under that key. They
--   include those that the participant has enqueued in other cells, before it was moved to this one.
-- errors:  RH030 the token is not in force, RH031 it is not for reading or for this participant,
--          25001 above READ COMMITTED.
-- reads:   payment_api_tokens, payment_api_calls, payment_outbox_keys, payment_arrived_keys, payment_arrivals, and
--          what carried_key and api_payments read.
-- locks:   nothing.   called by: api.
CREATE OR REPLACE FUNCTION {cell}.api_list(token_sha256 bytea, certificate bytea, participant_id text, after bigint,
  rows_max integer,
  instruction_id text DEFAULT NULL, idempotency_key text DEFAULT NULL)
RETURNS TABLE (item integer, outbox_id uuid, of_instruction text, of_participant text, own_key text, on_behalf_of text,
  sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  token CONSTANT {cell}.payment_api_tokens := {cell}.require_api_token(token_sha256, certificate, 'READ',
    api_list.participant_id);
  most  CONSTANT integer := least(greatest(coalesce(api_list.rows_max, 100), 1), 200);
  since CONSTANT bigint := coalesce(api_list.after, 0);
  found uuid[];
BEGIN
  IF api_list.participant_id COLLATE "C" = '' THEN
    RETURN;
  ELSIF api_list.idempotency_key IS NOT NULL THEN
    found := ARRAY(
      SELECT c.outbox_id FROM {cell}.payment_api_calls c
      WHERE c.participant_id = api_list.participant_id COLLATE "C"
        AND c.idempotency_key = api_list.idempotency_key COLLATE "C");
    IF found = '{}' THEN
      found := ARRAY(
        SELECT r.outbox_id FROM {cell}.carried_key(api_list.participant_id, api_list.idempotency_key) r);
    END IF;
  ELSIF api_list.instruction_id IS NOT NULL THEN
    found := ARRAY(
      SELECT k.outbox_id
      FROM (
        (SELECT k.outbox_id, k.sequence_id
         FROM (
           SELECT o.outbox_id, o.participant_id, o.sequence_id FROM {cell}.payment_outbox_keys o
           WHERE o.instruction_id = api_list.instruction_id COLLATE "C" OFFSET 0) k
         WHERE k.participant_id = api_list.participant_id COLLATE "C" AND k.sequence_id > since
         ORDER BY k.sequence_id
         LIMIT most)
        UNION
        SELECT r.outbox_id, r.sequence_id
        FROM (
          SELECT r.outbox_id, r.participant_id, r.sequence_id FROM {cell}.payment_arrived_keys r
          WHERE r.instruction_id = api_list.instruction_id COLLATE "C" OFFSET 0) r
        WHERE r.participant_id = api_list.participant_id COLLATE "C" AND r.sequence_id > since) k
      ORDER BY k.sequence_id
      LIMIT most);
  ELSE
    -- What came to this cell more than once is in each arrival: the last one counts here.
    found := ARRAY(
      SELECT k.outbox_id
      FROM (
        (SELECT o.outbox_id, o.sequence_id FROM {cell}.payment_outbox_keys o
         WHERE o.participant_id = api_list.participant_id COLLATE "C" AND o.sequence_id > since
         ORDER BY o.sequence_id
         LIMIT most)
        UNION
        (SELECT r.outbox_id, r.sequence_id
         FROM (
           SELECT r.outbox_id, r.sequence_id, r.bucket, r.version FROM {cell}.payment_arrived_keys r
           WHERE r.participant_id = api_list.participant_id COLLATE "C" AND r.sequence_id > since
           ORDER BY r.sequence_id
           OFFSET 0) r
         WHERE (
           SELECT true FROM {cell}.payment_arrivals a
           WHERE a.bucket = r.bucket AND a.version = r.version AND a.taken_at IS NOT NULL LIMIT 1)
           AND (
             SELECT true FROM {cell}.payment_arrivals a
             CROSS JOIN LATERAL (
               SELECT FROM {cell}.payment_arrived_keys n
               WHERE n.bucket = a.bucket AND n.version = a.version AND n.outbox_id = r.outbox_id LIMIT 1) n
             WHERE a.bucket = r.bucket AND a.version > r.version AND a.taken_at IS NOT NULL
             LIMIT 1) IS NULL
         ORDER BY r.sequence_id
         LIMIT most)) k
      ORDER BY k.sequence_id
      LIMIT most);
  END IF;
  RETURN QUERY
  SELECT p.item, p.outbox_id, p.instruction_id, p.participant_id,
    coalesce(p.idempotency_key, CASE WHEN p.outbox_id IS NOT NULL THEN api_list.idempotency_key END),
    p.on_behalf_of, p.sequence_id, p.created_at, p.state, p.certainty, p.attempts, p.changed_at, p.next_attempt_at,
    p.error_code, p.rail_code, p.rail_reference, p.waits_for_person
  FROM {cell}.api_payments(api_list.token_sha256, api_list.certificate, found) p
  WHERE (api_list.instruction_id IS NULL OR p.instruction_id = api_list.instruction_id COLLATE "C")
    AND p.sequence_id > since
  ORDER BY p.item;
END
$$;
