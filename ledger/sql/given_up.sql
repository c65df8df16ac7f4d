-- The events of an endpoint that were given up, as an act compares them with what the person saw. $1 endpoint_id
SELECT coalesce(sum(g.events), 0)::integer, coalesce(sum(g.mark), 0)::bigint FROM {cell}.given_up_events($1) g
