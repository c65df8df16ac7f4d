-- The status of instructions that this login, or one that shares a role with it, has enqueued. $1 instruction_id[],
-- $2 idempotency_key[]
SELECT s.item, s.outbox_id, s.sequence_id, s.created_at, s.state, s.certainty, s.attempts, s.changed_at,
  s.next_attempt_at, s.error_code, s.rail_code, s.rail_reference, s.waits_for_person
FROM {cell}.payment_status_batch($1, $2) s
