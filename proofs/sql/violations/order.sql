WITH {horizon},
claims AS (
  SELECT DISTINCT ON (a.outbox_id) a.outbox_id, a.claimed_at, a.rail_type, a.profile_version
  FROM {cell}.payment_outbox_attempts a
  JOIN {cell}.payment_outbox_keys k ON k.outbox_id = a.outbox_id
  JOIN {cell}.payment_rail_profiles f ON f.rail_type = a.rail_type AND f.version = a.profile_version
  WHERE a.state IN ({claim_states})
    AND coalesce(f.profile #>> ARRAY['order_participants', k.participant_id], f.profile ->> 'order') = 'STRICT'
  ORDER BY a.outbox_id, a.attempt_no
),
-- When each instruction was resolved: a bad end does so if the line goes on past it, or if it has no dead letter.
ends AS (
  SELECT a.outbox_id, a.completed_at AS at,
    a.state = 'FAILED' AND EXISTS (SELECT FROM {cell}.payment_dead_letters d WHERE d.outbox_id = a.outbox_id) AS bad
  FROM {cell}.payment_outbox_attempts a
  WHERE a.state IN ('DISPATCHED', 'CANCELLED', 'FAILED')
  UNION ALL
  SELECT l.outbox_id, l.acted_at, false
  FROM {cell}.payment_operator_log l
  WHERE l.act = 'SKIP_IN_ORDER' OR l.act = 'TRIAGE' AND l.subject = 'resolved'
),
numbers AS (
  SELECT k.participant_id, k.sequence_id, k.outbox_id, r.rail_type,
    coalesce((SELECT min(e.at) FROM ends e WHERE e.outbox_id = k.outbox_id AND NOT e.bad), 'infinity') AS ended,
    coalesce((SELECT min(e.at) FROM ends e WHERE e.outbox_id = k.outbox_id), 'infinity') AS badly
  FROM {cell}.payment_outbox_keys k
  CROSS JOIN horizon h
  CROSS JOIN LATERAL (
    SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id
    UNION
    SELECT p.rail_type FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = k.outbox_id
    ORDER BY 1
    LIMIT 1) r
  WHERE (k.outbox_id < h.id) IS NOT TRUE
)
SELECT format('participant %s: number %s (%s) was claimed on %s before number %s was resolved', n.participant_id, n.sequence_id,
  n.outbox_id, n.rail_type, b.sequence_id) AS violation
FROM numbers n
JOIN claims c ON c.outbox_id = n.outbox_id
CROSS JOIN LATERAL (
  SELECT EXISTS (
    SELECT FROM {cell}.payment_rail_profiles s
    WHERE s.rail_type = c.rail_type AND s.version <= c.profile_version AND s.profile ->> 'order_on_bad_end' = 'SKIP') AS skips) o
CROSS JOIN LATERAL (
  SELECT m.sequence_id, CASE WHEN o.skips THEN m.badly ELSE m.ended END AS until
  FROM numbers m
  WHERE m.participant_id = n.participant_id AND m.rail_type = n.rail_type AND m.sequence_id < n.sequence_id
  ORDER BY until DESC, m.sequence_id
  LIMIT 1) b
WHERE c.claimed_at < b.until
