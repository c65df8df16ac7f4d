-- The pending row of an instruction, and what holds it back. $1 outbox_id
SELECT p.attempt_count, nullif(p.next_attempt_at, 'infinity') AS next_attempt_at,
  p.next_attempt_at = 'infinity' AS set_aside,
  CASE WHEN isfinite(p.next_attempt_at)
    THEN (extract(epoch FROM p.next_attempt_at - clock_timestamp()) * 1000)::bigint END AS due_in_ms,
  p.next_action, p.outcome_unknown, p.provisional, p.first_sent_at, p.last_sent_at, p.send_count, p.inquiry_count,
  h.what, h.paused_by, h.paused_at, h.pause_reason, h.paused_until
FROM {cell}.payment_outbox_pending p
LEFT JOIN LATERAL (
  (SELECT CASE r.rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || r.rail_type END AS what,
     r.paused_by, r.paused_at, r.pause_reason, r.paused_until
   FROM {cell}.payment_rails r
   WHERE r.paused AND r.rail_type IN ('*', p.rail_type)
   ORDER BY r.rail_type)
  UNION ALL
  (SELECT 'participant ' || q.participant_id, q.paused_by, q.paused_at, q.pause_reason, q.paused_until
   FROM {cell}.payment_paused_participants q
   WHERE q.participant_id = p.participant_id)
  LIMIT 1) h ON true
WHERE p.outbox_id = $1
