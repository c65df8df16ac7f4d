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
