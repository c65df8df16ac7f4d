-- Changes the time budget. $1 the new values in ms by name, $2 reason
SELECT b.version, b.changed
FROM {cell}.set_time_budget($1::jsonb, $2) b
