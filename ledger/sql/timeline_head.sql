-- What an instruction is, and its state in one word. $1 outbox_id
SELECT k.instruction_id, k.idempotency_key, k.participant_id, k.sequence_id, k.rail_key, k.enqueued_by, k.created_at,
  (extract(epoch FROM clock_timestamp() - k.created_at) * 1000)::bigint AS age_ms, clock_timestamp() AS now,
  v.rail_type, v.state,
  c.payload ->> 'amount' AS amount, c.payload ->> 'currency' AS currency,
  c.payload::text AS payload, c.headers::text AS headers, c.priority, c.expires_at,
  (SELECT s.opened_at FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL) AS suspended_at
FROM {cell}.payment_outbox_keys k
LEFT JOIN LATERAL (
  SELECT s.rail_type, s.state
  FROM {cell}.supervisor_outbox_status s
  WHERE s.outbox_id = k.outbox_id
  LIMIT 1) v ON true
LEFT JOIN LATERAL (
  (SELECT p.payload, p.headers, p.priority, p.expires_at
   FROM {cell}.payment_outbox_pending p
   WHERE p.outbox_id = k.outbox_id)
  UNION ALL
  (SELECT a.payload, a.headers, a.priority, a.expires_at
   FROM {cell}.payment_outbox_attempts a
   WHERE a.outbox_id = k.outbox_id AND a.payload IS NOT NULL
   ORDER BY a.attempt_no DESC
   LIMIT 1)
  LIMIT 1) c ON true
WHERE k.outbox_id = $1
