-- A bounded number of instructions, newest first, each with its state, its last row and its amount;
-- the caller filters them. One of three indexes returns the ids (an arm whose word is not $1 is
-- never executed), and each id costs a few probes.
-- $1 recent, waiting or participant, $2 highest outbox_id, exclusive, $3 lowest,
-- $4 participant_id, $5 limit
SELECT k.outbox_id, k.instruction_id, k.participant_id, k.created_at,
  (extract(epoch FROM clock_timestamp() - k.created_at) * 1000)::bigint AS age_ms,
  coalesce(p.rail_type, a.rail_type) AS rail_type,
  CASE
    WHEN d.reason = 'CONFLICT' AND d.status NOT IN ({closed_letters}) THEN 'CONFLICT'
    WHEN p.provisional THEN 'ACCEPTED'
    WHEN p.outcome_unknown THEN 'UNKNOWN'
    WHEN p.outbox_id IS NOT NULL THEN 'PENDING'
    ELSE a.state::text
  END AS state,
  coalesce(p.outcome_unknown, a.outcome_unknown, false) AS outcome_unknown,
  a.state::text AS last_state, a.attempt_no, a.error_code, a.rail_code,
  coalesce(p.amount, c.amount) AS amount, coalesce(p.currency, c.currency) AS currency, p.outbox_id IS NOT NULL AS waits
FROM (
  (SELECT r.outbox_id
   FROM {cell}.payment_outbox_keys r
   WHERE $1 = 'recent' AND r.outbox_id < $2 AND r.outbox_id >= $3
   ORDER BY r.outbox_id DESC
   LIMIT $5)
  UNION ALL
  (SELECT w.outbox_id
   FROM {cell}.payment_outbox_pending w
   WHERE $1 = 'waiting' AND w.outbox_id < $2 AND w.outbox_id >= $3
   ORDER BY w.outbox_id DESC
   LIMIT $5)
  UNION ALL
  (SELECT q.outbox_id
   FROM {cell}.payment_outbox_keys q
   WHERE $1 = 'participant' AND q.participant_id = $4
     AND q.sequence_id < coalesce(
       (SELECT b.sequence_id
        FROM {cell}.payment_outbox_keys b
        WHERE b.outbox_id = $2 AND b.participant_id = $4), 9223372036854775807)
   ORDER BY q.sequence_id DESC
   LIMIT $5)
) l
CROSS JOIN LATERAL (
  SELECT i.outbox_id, i.instruction_id, i.participant_id, i.sequence_id, i.created_at
  FROM {cell}.payment_outbox_keys i
  WHERE i.outbox_id = l.outbox_id
  LIMIT 1) k
LEFT JOIN LATERAL (
  SELECT w.outbox_id, w.rail_type, w.outcome_unknown, w.provisional, w.amount, w.currency
  FROM {cell}.v_outbox_pending w
  WHERE w.outbox_id = l.outbox_id
  LIMIT 1) p ON true
LEFT JOIN LATERAL (
  SELECT t.rail_type, t.state, t.attempt_no, t.error_code, t.rail_code, t.outcome_unknown
  FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = l.outbox_id AND t.state <> 'LATE_OUTCOME'
  ORDER BY t.attempt_no DESC
  LIMIT 1) a ON true
LEFT JOIN LATERAL (
  SELECT t.amount, t.currency
  FROM {cell}.v_outbox_attempts t
  WHERE t.outbox_id = l.outbox_id AND t.has_payload
  ORDER BY t.attempt_no DESC
  LIMIT 1) c ON p.outbox_id IS NULL
LEFT JOIN LATERAL (
  SELECT e.reason, e.status
  FROM {cell}.payment_dead_letters e
  WHERE e.outbox_id = l.outbox_id
  LIMIT 1) d ON true
ORDER BY CASE WHEN $1 = 'participant' THEN k.sequence_id END DESC, k.outbox_id DESC
