-- The archive's rows of an instruction of the token's participants. $1 SHA-256 of the token, $2 of its certificate's
-- key, $3 outbox_id, $4 the attempt_no after which to begin, $5 limit
SELECT a.attempt_no, a.state, a.created_at, a.claimed_at, a.completed_at, a.answers_attempt_no, a.result,
  a.rail_reference, a.rail_code, a.error_code, a.latency_ms
FROM {cell}.api_attempts($1, $2, $3, $4, $5) a
