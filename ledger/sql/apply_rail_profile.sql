-- Puts a profile in force. $1 rail_type, $2 profile, $3 reason
SELECT a.version, a.changed
FROM {cell}.apply_rail_profile($1, $2::jsonb, $3) a
