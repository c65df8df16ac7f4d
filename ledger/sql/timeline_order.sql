-- The head of the line that an instruction is in, where the profile in force orders its participant. held_by is
-- why the head is unresolved by its rows: PENDING, QUARANTINED, or the state of its last row, of which one that
-- has ended has an open dead letter; null: it is resolved, an operator has skipped it as it stands, or no row shows what
-- became of it. $1 outbox_id
SELECT h.outbox_id, h.sequence_id, h.blocked_since,
  CASE
    WHEN q.next_attempt_at = 'infinity' THEN 'QUARANTINED'
    WHEN q.next_attempt_at IS NOT NULL THEN 'PENDING'
    WHEN a.state::text IN ({ended_states}) AND (s.skips OR d.reason IS NULL) THEN NULL
    WHEN a.state::text NOT IN ({claim_states}) AND EXISTS (
      SELECT FROM {cell}.payment_operator_log l
      WHERE l.outbox_id = h.outbox_id AND l.act = 'SKIP_IN_ORDER' AND (l.detail ->> 'attempt_no')::integer = a.attempt_no)
    THEN NULL
    ELSE a.state::text END AS held_by,
  CASE WHEN isfinite(q.next_attempt_at) THEN q.next_attempt_at END AS next_attempt_at, d.reason
FROM (
  SELECT k.participant_id, coalesce(
    (SELECT p.rail_type FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1 LIMIT 1),
    (SELECT t.rail_type FROM {cell}.payment_outbox_attempts t WHERE t.outbox_id = $1
     ORDER BY t.attempt_no DESC LIMIT 1)) AS rail_type
  FROM {cell}.payment_outbox_keys k
  WHERE k.outbox_id = $1
  LIMIT 1) i
CROSS JOIN LATERAL (
  SELECT o.rail_type, o.outbox_id, o.sequence_id, o.blocked_since
  FROM {cell}.v_order_heads o
  WHERE o.rail_type = i.rail_type AND o.participant_id = i.participant_id
  LIMIT 1) h
CROSS JOIN LATERAL (
  SELECT coalesce(v.profile ->> 'order_on_bad_end', 'BLOCK') = 'SKIP' AS skips
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles v ON v.rail_type = r.rail_type AND v.version = r.profile_version
  WHERE r.rail_type = h.rail_type
  LIMIT 1) s
LEFT JOIN LATERAL (
  SELECT p.next_attempt_at FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = h.outbox_id LIMIT 1) q ON true
LEFT JOIN LATERAL (
  SELECT t.state, t.attempt_no FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = h.outbox_id AND t.state <> 'LATE_OUTCOME'
  ORDER BY t.attempt_no DESC
  LIMIT 1) a ON true
LEFT JOIN LATERAL (
  SELECT e.reason FROM {cell}.payment_dead_letters e
  WHERE e.outbox_id = h.outbox_id AND e.status NOT IN ({closed_letters})
  LIMIT 1) d ON true
