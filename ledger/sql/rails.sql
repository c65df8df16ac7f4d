-- The rails of this cell, with the profile in force.
SELECT r.rail_type, r.profile_version, p.profile::text, r.paused OR e.paused AS paused
FROM {cell}.payment_rails r
JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
CROSS JOIN {cell}.payment_rails e
WHERE e.rail_type = '*'
ORDER BY r.rail_type
