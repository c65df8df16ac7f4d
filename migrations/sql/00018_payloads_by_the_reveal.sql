-- Migration 18, payloads by the reveal. Binaries that need migration 13 or a newer one work on a cell that has it.

-- function payload_form
CREATE OR REPLACE FUNCTION {cell}.payload_form(outbox_id uuid)
RETURNS TABLE (depth integer, key text, kind text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE part (place, name, value) AS (
    SELECT ARRAY[]::integer[], NULL::text, c.payload
    FROM {cell}.payload_of(payload_form.outbox_id) c
    WHERE c.payload IS NOT NULL
    UNION ALL
    SELECT p.place || m.n::integer, m.name, m.value
    FROM part p
    CROSS JOIN LATERAL (
      SELECT o.n, o.key AS name, o.value
      FROM jsonb_each(CASE jsonb_typeof(p.value) WHEN 'object' THEN p.value ELSE '{}' END)
        WITH ORDINALITY o (key, value, n)
      UNION ALL
      SELECT l.n, NULL, l.value
      FROM jsonb_array_elements(CASE jsonb_typeof(p.value) WHEN 'array' THEN p.value ELSE '[]' END)
        WITH ORDINALITY l (value, n)) m
    WHERE cardinality(p.place) < 20 AND m.n <= 201)
  SELECT cardinality(p.place), left(p.name, 81),
    CASE jsonb_typeof(p.value)
      WHEN 'array' THEN 'list'
      WHEN 'string' THEN 'text'
      WHEN 'boolean' THEN 'true or false'
      ELSE jsonb_typeof(p.value)
    END
  FROM part p
  ORDER BY p.place
  LIMIT 201;
END
$$;
-- end of payload_form

-- view v_outbox_amounts
CREATE OR REPLACE VIEW {cell}.v_outbox_amounts AS
SELECT i.outbox_id, i.payload ->> 'amount' AS amount, i.payload ->> 'currency' AS currency
FROM {cell}.payment_outbox_instructions i;
COMMENT ON VIEW {cell}.v_outbox_amounts IS
  'The money of each instruction, for those who may not read its payload. The view runs with its owner''s rights.';
-- end of v_outbox_amounts

-- view v_outbox_attempts
CREATE OR REPLACE VIEW {cell}.v_outbox_attempts AS
SELECT a.attempt_id, a.outbox_id, coalesce(a.sequence_id, k.sequence_id) AS sequence_id, a.created_at, a.claimed_at,
  a.completed_at, a.attempt_no, a.state, a.answers_attempt_no, a.latency_ms, a.profile_version, a.outcome_unknown,
  a.provisional, a.priority, a.send_count, a.inquiry_count, a.enqueued_at, a.next_attempt_at, a.expires_at,
  a.first_sent_at, a.last_sent_at, coalesce(a.instruction_id, k.instruction_id) AS instruction_id,
  coalesce(a.participant_id, k.participant_id) AS participant_id,
  coalesce(a.idempotency_key, k.idempotency_key) AS idempotency_key,
  a.rail_type, a.result, a.rail_reference, a.rail_code, a.code_table, a.error_code, a.error_message, a.worker_id,
  a.actor, a.render_version, a.next_action,
  coalesce(a.headers, CASE WHEN a.enqueued_at IS NOT NULL THEN
    (SELECT i.headers FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = a.outbox_id) END) AS headers,
  coalesce(a.payload, CASE WHEN a.enqueued_at IS NOT NULL THEN
    (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = a.outbox_id) END) AS payload,
  a.xact,
  coalesce(a.payload, CASE WHEN a.enqueued_at IS NOT NULL THEN
    (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = a.outbox_id) END) ->> 'amount' AS amount,
  coalesce(a.payload, CASE WHEN a.enqueued_at IS NOT NULL THEN
    (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = a.outbox_id) END) ->> 'currency' AS currency,
  coalesce(a.payload, CASE WHEN a.enqueued_at IS NOT NULL THEN
    (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = a.outbox_id) END) IS NOT NULL AS has_payload,
  -- Computed as in payment_outbox_fingerprint, which not every reader may execute.
  k.fingerprint <> sha256(convert_to(coalesce(a.participant_id, k.participant_id) || chr(31) || a.rail_type || chr(31)
    || coalesce(a.payload, CASE WHEN a.enqueued_at IS NOT NULL THEN
    (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = a.outbox_id) END)::text, 'UTF8'))
    AS other_payload,
  substring(coalesce(a.headers, CASE WHEN a.enqueued_at IS NOT NULL THEN
    (SELECT i.headers FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = a.outbox_id) END) ->> 'traceparent'
    FROM '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$') AS traceparent
FROM {cell}.payment_outbox_attempts a
LEFT JOIN LATERAL (
  SELECT r.sequence_id, r.instruction_id, r.participant_id, r.idempotency_key, r.fingerprint
  FROM {cell}.payment_outbox_keys r
  WHERE r.outbox_id = a.outbox_id
  LIMIT 1) k ON true;
COMMENT ON VIEW {cell}.v_outbox_attempts IS
  'The rows of the archive, whatever their age, each with the identity of its instruction. Rows that took it out '
  'of pending have its order too. Readers and operators may not read payload and headers: amount, currency, '
  'has_payload, other_payload (it is not the one that was enqueued) and traceparent are theirs.';
-- end of v_outbox_attempts

-- view v_outbox_pending
CREATE OR REPLACE VIEW {cell}.v_outbox_pending AS
SELECT p.outbox_id, coalesce(p.sequence_id, k.sequence_id) AS sequence_id, p.next_attempt_at, p.created_at,
  p.expires_at, p.first_sent_at, p.last_sent_at, p.attempt_count, p.send_count, p.inquiry_count, p.priority,
  p.outcome_unknown, p.provisional, coalesce(p.instruction_id, k.instruction_id) AS instruction_id, p.participant_id,
  coalesce(p.idempotency_key, k.idempotency_key) AS idempotency_key, p.rail_type, p.next_action, p.render_version,
  coalesce(p.headers,
    (SELECT i.headers FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id)) AS headers,
  coalesce(p.payload,
    (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id)) AS payload,
  coalesce(p.payload,
    (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id))
    ->> 'amount' AS amount,
  coalesce(p.payload,
    (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id))
    ->> 'currency' AS currency,
  substring(coalesce(p.headers,
    (SELECT i.headers FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id)) ->> 'traceparent'
    FROM '^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$') AS traceparent
FROM {cell}.payment_outbox_pending p
LEFT JOIN LATERAL (
  SELECT r.sequence_id, r.instruction_id, r.idempotency_key
  FROM {cell}.payment_outbox_keys r
  WHERE r.outbox_id = p.outbox_id
  LIMIT 1) k ON true;
COMMENT ON VIEW {cell}.v_outbox_pending IS
  'Pending instructions, each with its identity and its order, whatever the age of its row. Readers and operators '
  'may not read payload and headers: amount, currency and traceparent are theirs.';
-- end of v_outbox_pending

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 18, serves 13'
$$;
-- end of schema_version
