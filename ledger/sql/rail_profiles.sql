-- The profile of a rail that is in force, and two versions to compare.
-- $1 rail_type, $2 the earlier version; 0: the one before the later, $3 the later version; 0: the
-- one in force
SELECT p.version, p.applied_at, p.applied_by, p.reason, p.profile::text, r.profile_version AS in_force, v.earlier,
  v.later
FROM {cell}.payment_rails r
CROSS JOIN LATERAL (
  SELECT coalesce(nullif($2::integer, 0), coalesce(nullif($3::integer, 0), r.profile_version) - 1) AS earlier,
    coalesce(nullif($3::integer, 0), r.profile_version) AS later) v
JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type
  AND p.version IN (r.profile_version, v.earlier, v.later)
WHERE r.rail_type = $1
ORDER BY p.version
