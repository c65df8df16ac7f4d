-- Claims that have not been answered for a while, the oldest first. Rows of the archive that
-- answer, repair or act do not show them.
-- $1 minimum age in ms, $2 rail_type or null, $3 participant_id or null, $4 state or null, $5 limit
SELECT a.outbox_id, coalesce(a.instruction_id, ''), coalesce(a.participant_id, ''), a.rail_type, a.attempt_no,
  a.state::text, NULL::int AS answers_attempt_no, a.created_at, a.claimed_at, a.completed_at, a.result,
  a.rail_reference, a.rail_code, a.error_code, a.latency_ms, a.worker_id, a.outcome_unknown,
  ($2::text IS NULL OR a.rail_type = $2) AND ($3::text IS NULL OR a.participant_id = $3)
    AND ($4::text IS NULL OR a.state::text = $4) AS wanted
FROM (
  SELECT m.outbox_id, m.attempt_no
  FROM {cell}.payment_outbox_claims c
  CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
  WHERE c.claimed_at <= clock_timestamp() - $1::bigint * interval '1 millisecond'
  ORDER BY c.claimed_at
  LIMIT $5) f
CROSS JOIN LATERAL (
  SELECT t.outbox_id, t.instruction_id, t.participant_id, t.rail_type, t.attempt_no, t.state, t.created_at, t.claimed_at,
    t.completed_at, t.result, t.rail_reference, t.rail_code, t.error_code, t.latency_ms, t.worker_id, t.outcome_unknown
  FROM {cell}.v_outbox_attempts t
  WHERE t.outbox_id = f.outbox_id AND t.attempt_no = f.attempt_no
  LIMIT 1) a
WHERE {is_open f}
ORDER BY a.created_at, a.outbox_id
