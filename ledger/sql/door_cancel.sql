-- Cancels a pending instruction that was never executed, and returns its status. $1 SHA-256 of the token, $2 of its
-- certificate's key, $3 outbox_id, $4 reason
SELECT 1, $3::uuid, c.sequence_id, c.created_at, c.state, c.certainty, c.attempts, c.changed_at, c.next_attempt_at,
  c.error_code, c.rail_code, c.rail_reference, c.waits_for_person, c.instruction_id, c.participant_id,
  c.idempotency_key, c.on_behalf_of, c.replayed
FROM {cell}.api_cancel_status($1, $2, $3, $4) c
