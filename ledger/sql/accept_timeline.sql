-- Lets sending go on on this server. $1 reason
SELECT a.system_identifier, a.timeline
FROM {cell}.accept_timeline($1) a
