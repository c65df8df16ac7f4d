-- Gives the rows of a cell the shape that builds before the table of instructions wrote:
-- each row of pending and of the archive has its own copy of what identifies the
-- instruction, and those that take it out of pending of what was ordered.
ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER;
UPDATE railhead.payment_outbox_attempts a
SET sequence_id = v.sequence_id, instruction_id = v.instruction_id, participant_id = v.participant_id,
  idempotency_key = v.idempotency_key, headers = v.headers, payload = v.payload, xact = NULL
FROM railhead.v_outbox_attempts v
WHERE v.outbox_id = a.outbox_id AND v.attempt_no = a.attempt_no;
UPDATE railhead.payment_outbox_pending p
SET sequence_id = v.sequence_id, instruction_id = v.instruction_id, idempotency_key = v.idempotency_key,
  headers = v.headers, payload = v.payload
FROM railhead.v_outbox_pending v
WHERE v.outbox_id = p.outbox_id;
ALTER TABLE railhead.payment_outbox_instructions DISABLE TRIGGER USER;
DELETE FROM railhead.payment_outbox_instructions;
ALTER TABLE railhead.payment_outbox_instructions ENABLE ALWAYS TRIGGER payment_outbox_instructions_append_only;
ALTER TABLE railhead.payment_outbox_instructions ENABLE ALWAYS TRIGGER payment_outbox_instructions_append_only_rows;
ALTER TABLE railhead.payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_append_only;
ALTER TABLE railhead.payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_append_only_rows;
