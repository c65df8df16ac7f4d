-- Rows that answer, repair or act, in the order in which they were made, after
-- one of them. Claims are not among them: the index that gives the order leaves
-- them out, because every answer says when and by whom it was claimed. Filters
-- drop rows, they do not steer.
-- $1 created_at, $2 outbox_id, $3 attempt_no of the row before the first one,
-- $4 rail_type or null, $5 participant_id or null, $6 state or null, $7 limit
SELECT a.outbox_id, coalesce(a.instruction_id, ''), coalesce(a.participant_id, ''), a.rail_type, a.attempt_no, a.state::text, a.answers_attempt_no,
  a.created_at, a.claimed_at, a.completed_at, a.result, a.rail_reference, a.rail_code, a.error_code, a.latency_ms, a.worker_id,
  a.outcome_unknown,
  ($4::text IS NULL OR a.rail_type = $4) AND ($5::text IS NULL OR a.participant_id = $5) AND ($6::text IS NULL OR a.state::text = $6) AS wanted
FROM {cell}.v_outbox_attempts a
WHERE a.state NOT IN ({claim_states})
  AND a.created_at >= $1
  AND (a.created_at, a.outbox_id, a.attempt_no) > ($1, $2, $3)
ORDER BY a.created_at, a.outbox_id, a.attempt_no
LIMIT $7
