-- The archive's rows of a page, in the order of their numbers.
SELECT a.outbox_id, coalesce(a.instruction_id, ''), coalesce(a.idempotency_key, ''), coalesce(a.participant_id, ''),
  coalesce(a.sequence_id, 0), a.rail_type, a.attempt_no, a.state::text, coalesce(a.answers_attempt_no, 0) AS answers,
  coalesce(a.result, '') AS result, coalesce(a.error_code, '') AS error_code, a.outcome_unknown,
  a.payload IS NOT NULL AS has_payload, coalesce(extract(epoch FROM statement_timestamp() - a.claimed_at),
    0)::float8 AS claimed_seconds_ago
FROM {cell}.v_outbox_attempts a
WHERE a.outbox_id >= $1 AND a.outbox_id <= $2
ORDER BY a.outbox_id, a.attempt_no
