CREATE OR REPLACE VIEW {cell}.supervisor_outbox_status AS
SELECT
  k.outbox_id,
  k.instruction_id,
  k.participant_id,
  k.sequence_id,
  coalesce(p.rail_type, a.rail_type)                        AS rail_type,
  CASE
    WHEN d.reason = 'CONFLICT' AND d.status NOT IN ({closed_letters}) THEN 'CONFLICT'
    WHEN p.provisional THEN 'ACCEPTED'
    WHEN p.outcome_unknown THEN 'UNKNOWN'
    WHEN p.outbox_id IS NOT NULL THEN 'PENDING'
    ELSE s.state::text
  END                                                       AS state,
  k.created_at                                              AS enqueued_at,
  clock_timestamp() - k.created_at                          AS age,
  coalesce(a.attempt_no, 0)                                 AS attempts,
  a.state::text                                             AS last_attempt_state,
  a.created_at                                              AS last_attempt_at,
  a.error_code                                              AS last_error_code,
  a.error_message                                           AS last_error_message,
  coalesce(p.outcome_unknown, a.outcome_unknown, false)     AS outcome_unknown,
  p.next_attempt_at,
  p.next_action,
  p.priority,
  p.expires_at,
  d.reason                                                  AS dead_letter_reason,
  d.status                                                  AS dead_letter_status
FROM {cell}.payment_outbox_keys k
LEFT JOIN {cell}.payment_outbox_pending p ON p.outbox_id = k.outbox_id
LEFT JOIN LATERAL (
  SELECT t.attempt_no, t.state, t.rail_type, t.created_at, t.error_code, t.error_message, t.outcome_unknown
  FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = k.outbox_id
  ORDER BY t.attempt_no DESC
  LIMIT 1) a ON true
LEFT JOIN LATERAL (
  SELECT t.state
  FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = k.outbox_id AND t.state <> 'LATE_OUTCOME'
  ORDER BY t.attempt_no DESC
  LIMIT 1) s ON true
LEFT JOIN {cell}.payment_dead_letters d ON d.outbox_id = k.outbox_id;
COMMENT ON VIEW {cell}.supervisor_outbox_status IS
  'One row for each instruction: its state, age, attempts and last error. The view runs with its owner''s rights, '
  'so that a reader needs no privilege on the tables.';
