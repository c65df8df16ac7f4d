-- The status of instructions of the token's participants. $1 SHA-256 of the token, $2 of its certificate's key,
-- $3 outbox_id[]
SELECT p.item, p.outbox_id, p.sequence_id, p.created_at, p.state, p.certainty, p.attempts, p.changed_at,
  p.next_attempt_at, p.error_code, p.rail_code, p.rail_reference, p.waits_for_person, p.instruction_id,
  p.participant_id, p.idempotency_key, p.on_behalf_of
FROM {cell}.api_payments($1, $2, $3) p
