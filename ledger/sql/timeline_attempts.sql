-- The latest rows of an instruction, newest first. $1 outbox_id, $2 limit
SELECT a.attempt_no, a.state::text, a.answers_attempt_no, a.created_at, a.claimed_at, a.completed_at,
  a.result, a.rail_reference, a.rail_code, a.code_table, a.error_code, a.error_message, a.latency_ms,
  a.worker_id, a.actor, a.profile_version, a.render_version, a.outcome_unknown, a.provisional
FROM {cell}.payment_outbox_attempts a
WHERE a.outbox_id = $1
ORDER BY a.attempt_no DESC
LIMIT $2
