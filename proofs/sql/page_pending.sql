-- The pending rows of a page.
SELECT p.outbox_id, coalesce(p.instruction_id, ''), coalesce(p.idempotency_key, ''), p.participant_id,
  coalesce(p.sequence_id, 0), p.rail_type, p.attempt_count, p.outcome_unknown, p.next_attempt_at = 'infinity' AS aside,
  p.payload IS NOT NULL AS has_payload
FROM {cell}.v_outbox_pending p
WHERE p.outbox_id >= $1 AND p.outbox_id <= $2
