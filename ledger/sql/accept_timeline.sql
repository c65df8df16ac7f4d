-- Accepts this server, so that sending continues. $1 reason, $2 opened_at of the suspension that
-- was compared; null if none is open
SELECT a.system_identifier, a.timeline
FROM {cell}.accept_timeline($1, $2) a
