-- Discards permanently the events that an endpoint does not accept. $1 endpoint, $2 reason
SELECT {cell}.discard_events($1, $2)
