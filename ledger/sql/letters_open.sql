-- Dead letters that wait for a person, the longest waiting first. The partial
-- index holds the open ones alone, so this costs what is open and no more.
-- $1 reason or null, $2 rail_type or null, $3 status or null, $4 limit
SELECT d.outbox_id, d.instruction_id, d.participant_id, d.rail_type, d.reason, d.error_code, d.status, d.note, d.actor,
  d.opened_at, d.updated_at, (extract(epoch FROM clock_timestamp() - d.opened_at) * 1000)::bigint AS age_ms
FROM {cell}.payment_dead_letters d
WHERE d.status NOT IN ({closed_letters})
  AND ($1::text IS NULL OR d.reason = $1)
  AND ($2::text IS NULL OR d.rail_type = $2)
  AND ($3::text IS NULL OR d.status = $3)
ORDER BY d.opened_at, d.outbox_id
LIMIT $4
