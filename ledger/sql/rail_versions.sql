-- The versions of a rail's profile, newest first.
-- $1 rail_type, $2 only versions before this one, $3 limit
SELECT p.version, p.applied_at, p.applied_by, p.reason
FROM {cell}.payment_rail_profiles p
WHERE p.rail_type = $1 AND p.version < $2
ORDER BY p.version DESC
LIMIT $3
