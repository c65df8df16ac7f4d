-- The latest suspensions, newest first, with who opened and who ended each. An unknown known_until
-- is null. $1 limit
SELECT s.cause, s.detail, s.opened_at, s.opened_by, s.worker_id,
  CASE WHEN s.known_until > '-infinity' THEN s.known_until END AS known_until, s.accepted_at, s.accepted_by, s.reason
FROM {cell}.payment_outbox_suspensions s
ORDER BY s.suspension_id DESC
LIMIT $1
