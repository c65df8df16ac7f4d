-- Delivers events again. $1 endpoint, $2 the time from which to begin or null, $3 reason
SELECT {cell}.redeliver_events($1, $2, $3)
