-- The latest suspensions, newest first, and how long callers may repeat calls after
-- each. $1 limit
SELECT s.suspension_id, s.cause, s.detail, s.opened_at, s.accepted_at,
  CASE WHEN s.known_until > '-infinity' THEN s.known_until ELSE 'epoch' END AS known_until,
  coalesce(s.accepted_at, 'epoch') + g.repeated_within AS doubted_until
FROM {cell}.payment_outbox_suspensions s
CROSS JOIN {cell}.payment_outbox_settings g
ORDER BY s.suspension_id DESC
LIMIT $1
