-- Dead letters by reason, code and rail, with their total by currency, of the $4 letters that were
-- opened first. The currency is null if the payload names none.
-- $1 reason or null, $2 rail_type or null, $3 status or null: the open ones, $4 limit,
-- $5 error_code, empty for letters without one, or null, $6 participant_id or null,
-- $7 the latest opened_at or null, $8 the earliest or null
SELECT l.reason, l.error_code, l.rail_type, l.currency, count(*) AS letters,
  (extract(epoch FROM clock_timestamp() - min(l.opened_at)) * 1000)::bigint AS oldest_ms,
  min(l.opened_at) AS first_at, max(l.opened_at) AS last_at,
  sum(l.amount)::text AS amount,
  sum(count(*)) OVER ()::bigint AS looked_at
FROM (
  SELECT d.outbox_id, d.reason, d.error_code, d.rail_type, d.opened_at, d.amount, d.currency
  FROM {cell}.payment_dead_letters d
  WHERE ($3::text IS NULL AND d.status NOT IN ({closed_letters}) OR d.status = $3)
    AND ($1::text IS NULL OR d.reason = $1)
    AND ($2::text IS NULL OR d.rail_type = $2)
    AND ($5::text IS NULL OR coalesce(d.error_code, '') = $5)
    AND ($6::text IS NULL OR d.participant_id = $6)
    AND ($7::timestamptz IS NULL OR d.opened_at <= $7)
    AND ($8::timestamptz IS NULL OR d.opened_at >= $8)
  ORDER BY d.opened_at, d.outbox_id
  LIMIT $4) l
GROUP BY l.reason, l.error_code, l.rail_type, l.currency
ORDER BY count(*) DESC, l.reason, l.error_code, l.rail_type, l.currency
