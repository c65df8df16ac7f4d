-- The archive's rows of every instruction whose id begins with the prefix, in order, as text. $1 prefix
SELECT k.instruction_id, k.participant_id, k.sequence_id::text, a.outbox_id::text, a.attempt_no::text, a.state::text,
  coalesce(a.answers_attempt_no::text, ''), coalesce(a.result, ''), coalesce(a.rail_reference, ''),
    coalesce(a.rail_code, ''),
  coalesce(a.error_code, ''), coalesce(a.worker_id, ''), a.actor, a.created_at::text
FROM {cell}.payment_outbox_keys k
JOIN {cell}.payment_outbox_attempts a ON a.outbox_id = k.outbox_id
WHERE starts_with(k.instruction_id, $1)
ORDER BY k.participant_id, k.sequence_id, a.attempt_no
