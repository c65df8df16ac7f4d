-- What an act on an endpoint compares with what the person saw: its pause, and the events that were given up.
-- $1 endpoint_id
SELECT (SELECT e.paused_at FROM {cell}.event_endpoints() e WHERE e.endpoint_id = $1), coalesce(sum(g.events), 0)::integer,
  coalesce(sum(g.mark), 0)::bigint
FROM {cell}.given_up_events($1) g
