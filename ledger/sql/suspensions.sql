-- The latest suspensions, newest first. $1 limit
SELECT s.suspension_id, s.cause, s.detail, s.opened_at, s.accepted_at, s.known_until, s.doubted_until,
  s.server_started_at, s.timeline
FROM {cell}.latest_suspensions($1) s
