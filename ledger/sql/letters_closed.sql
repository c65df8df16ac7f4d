-- Dead letters that are closed, the latest first.
-- $1 reason or null, $2 rail_type or null, $3 status, $4 limit,
-- $5 error_code or null, $6 participant_id or null, $7 the latest opened_at or null
SELECT d.outbox_id, d.instruction_id, d.participant_id, d.rail_type, d.reason, d.error_code, d.status, d.note, d.actor,
  d.opened_at, d.updated_at, (extract(epoch FROM clock_timestamp() - d.opened_at) * 1000)::bigint AS age_ms,
  m.payload ->> 'amount' AS amount, m.payload ->> 'currency' AS currency
FROM {cell}.payment_dead_letters d
CROSS JOIN LATERAL (
  SELECT coalesce(
    (SELECT p.payload FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = d.outbox_id),
    (SELECT a.payload FROM {cell}.payment_outbox_attempts a
     WHERE a.outbox_id = d.outbox_id AND a.payload IS NOT NULL ORDER BY a.attempt_no DESC LIMIT 1)) AS payload) m
WHERE d.status = $3
  AND ($1::text IS NULL OR d.reason = $1)
  AND ($2::text IS NULL OR d.rail_type = $2)
  AND ($5::text IS NULL OR d.error_code = $5)
  AND ($6::text IS NULL OR d.participant_id = $6)
  AND ($7::timestamptz IS NULL OR d.opened_at <= $7)
ORDER BY d.updated_at DESC, d.outbox_id
LIMIT $4
