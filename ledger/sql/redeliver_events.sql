-- An operator has events delivered again. $1 endpoint, $2 from which moment on or null, $3 why
SELECT {cell}.redeliver_events($1, $2, $3)
