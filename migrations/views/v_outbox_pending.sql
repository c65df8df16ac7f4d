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
