-- An operator gives up for good what an endpoint never takes. $1 endpoint, $2 why
SELECT {cell}.discard_events($1, $2)
