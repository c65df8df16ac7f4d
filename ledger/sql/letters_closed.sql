-- Closed dead letters, the latest first.
-- $1 reason or null, $2 rail_type or null, $3 status, $4 limit,
-- $5 error_code, empty for letters without one, or null, $6 participant_id or null,
-- $7 the latest opened_at or null, $8 the earliest or null, $9 updated_at and $10 outbox_id of
-- the letter after which the page begins, or null
SELECT d.outbox_id, d.instruction_id, d.participant_id, d.rail_type, d.reason, d.error_code, d.status, d.note, d.actor,
  d.opened_at, d.updated_at, d.amount::text, d.currency, d.attempts, d.first_attempt_at, d.last_attempt_at, d.rail_code,
    d.error_message,
  (extract(epoch FROM clock_timestamp() - d.opened_at) * 1000)::bigint AS age_ms
FROM {cell}.payment_dead_letters d
WHERE d.status = $3
  AND ($1::text IS NULL OR d.reason = $1)
  AND ($2::text IS NULL OR d.rail_type = $2)
  AND ($5::text IS NULL OR coalesce(d.error_code, '') = $5)
  AND ($6::text IS NULL OR d.participant_id = $6)
  AND ($7::timestamptz IS NULL OR d.opened_at <= $7)
  AND ($8::timestamptz IS NULL OR d.opened_at >= $8)
  AND ($9::timestamptz IS NULL OR d.updated_at < $9 OR d.updated_at = $9 AND d.outbox_id > $10::uuid)
ORDER BY d.updated_at DESC, d.outbox_id
LIMIT $4
