-- The waiting rows of a page.
SELECT p.outbox_id, p.instruction_id, p.idempotency_key, p.participant_id, p.sequence_id, p.rail_type,
  p.attempt_count, p.outcome_unknown, p.next_attempt_at = 'infinity' AS aside
FROM {cell}.payment_outbox_pending p
WHERE p.outbox_id > $1 AND p.outbox_id <= $2
