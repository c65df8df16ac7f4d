-- The next $4 numbers after ($1 participant, $2 number, $3 outbox_id) in the registry: the rail, the
-- first claim under a profile that requires the order, and when each was resolved first, in
-- microseconds since 1970; the highest number: never. A bad end counts for "badly" only.
WITH page AS MATERIALIZED (
  SELECT k.participant_id, k.sequence_id, k.outbox_id
  FROM {cell}.payment_outbox_keys k
  WHERE (k.participant_id, k.sequence_id, k.outbox_id) > ($1, $2::bigint, $3::uuid)
  ORDER BY k.participant_id, k.sequence_id, k.outbox_id
  LIMIT $4
)
SELECT k.participant_id, k.sequence_id, k.outbox_id, coalesce(r.rail_type, p.rail_type, '') AS rail,
  (extract(epoch FROM c.claimed_at) * 1000000)::bigint AS claimed, coalesce(c.skips, false) AS skips,
  coalesce((extract(epoch FROM least(r.ended, r.failed_alone, o.acted)) * 1000000)::bigint, 9223372036854775807) AS ended,
  coalesce((extract(epoch FROM least(r.ended, r.failed, o.acted)) * 1000000)::bigint, 9223372036854775807) AS badly
FROM page k
LEFT JOIN LATERAL (
  SELECT q.rail_type FROM {cell}.payment_outbox_pending q WHERE q.outbox_id = k.outbox_id) p ON true
CROSS JOIN LATERAL (
  SELECT min(a.rail_type) AS rail_type,
    min(a.completed_at) FILTER (WHERE a.state IN ('DISPATCHED', 'CANCELLED')) AS ended,
    min(a.completed_at) FILTER (WHERE a.state = 'FAILED') AS failed,
    min(a.completed_at) FILTER (WHERE a.state = 'FAILED' AND NOT EXISTS (
      SELECT FROM {cell}.payment_dead_letters d WHERE d.outbox_id = k.outbox_id)) AS failed_alone
  FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id) r
CROSS JOIN LATERAL (
  SELECT min(l.acted_at) AS acted FROM {cell}.payment_operator_log l
  WHERE l.outbox_id = k.outbox_id AND (l.act = 'SKIP_IN_ORDER' OR l.act = 'TRIAGE' AND l.subject = 'resolved')) o
LEFT JOIN LATERAL (
  SELECT a.claimed_at, EXISTS (
    -- What was passed at a bad end stays passed, under later profiles too.
    SELECT FROM {cell}.payment_rail_profiles s
    WHERE s.rail_type = a.rail_type AND s.version <= a.profile_version AND s.profile ->> 'order_on_bad_end' = 'SKIP')
      AS skips
  FROM {cell}.payment_outbox_attempts a
  JOIN {cell}.payment_rail_profiles f ON f.rail_type = a.rail_type AND f.version = a.profile_version
  WHERE a.outbox_id = k.outbox_id AND a.state IN ('DISPATCHING', 'INQUIRING')
    AND coalesce(f.profile -> 'order_participants' ->> k.participant_id, f.profile ->> 'order') = 'STRICT'
  ORDER BY a.attempt_no
  LIMIT 1) c ON true
ORDER BY k.participant_id, k.sequence_id, k.outbox_id
