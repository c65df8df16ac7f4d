-- Locks an endpoint until the transaction of an act on it ends, and returns since when it is paused. $1 endpoint_id
SELECT {cell}.hold_event_endpoint($1)
