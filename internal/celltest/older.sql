-- Takes a cell back to migration 7, with the rows that the builds of then would have
-- written: each row of pending and of the archive has its own copy of what identifies
-- the instruction, and those that take it out of pending of what was ordered.
ALTER TABLE railhead.payment_outbox_attempts DISABLE TRIGGER USER;
UPDATE railhead.payment_outbox_attempts a
SET sequence_id = v.sequence_id, instruction_id = v.instruction_id, participant_id = v.participant_id,
  idempotency_key = v.idempotency_key, headers = v.headers, payload = v.payload
FROM railhead.v_outbox_attempts v
WHERE v.outbox_id = a.outbox_id AND v.attempt_no = a.attempt_no;
UPDATE railhead.payment_outbox_pending p
SET sequence_id = v.sequence_id, instruction_id = v.instruction_id, idempotency_key = v.idempotency_key,
  headers = v.headers, payload = v.payload
FROM railhead.v_outbox_pending v
WHERE v.outbox_id = p.outbox_id;

DROP VIEW railhead.v_outbox_attempts, railhead.v_outbox_pending;
DROP TABLE railhead.payment_outbox_instructions, railhead.payment_api_calls, railhead.payment_api_uses;
DROP TABLE railhead.payment_api_tokens CASCADE;
DROP TABLE railhead.payment_outbox_contradictions;
DROP TABLE railhead.payment_event_retries, railhead.payment_event_endpoints CASCADE;
ALTER TABLE railhead.payment_outbox_attempts
  DROP COLUMN xact,
  ALTER COLUMN sequence_id SET NOT NULL,
  ALTER COLUMN instruction_id SET NOT NULL,
  ALTER COLUMN participant_id SET NOT NULL,
  ALTER COLUMN idempotency_key SET NOT NULL,
  DROP CONSTRAINT payment_outbox_attempts_complete,
  ADD CONSTRAINT payment_outbox_attempts_complete CHECK (
    state NOT IN ('DISPATCHING', 'INQUIRING', 'CANCELLED')
    OR (payload IS NOT NULL AND headers IS NOT NULL AND priority IS NOT NULL AND enqueued_at IS NOT NULL
        AND next_attempt_at IS NOT NULL AND next_action IS NOT NULL AND send_count IS NOT NULL AND inquiry_count IS NOT NULL));
ALTER TABLE railhead.payment_outbox_pending
  ALTER COLUMN sequence_id SET NOT NULL,
  ALTER COLUMN instruction_id SET NOT NULL,
  ALTER COLUMN idempotency_key SET NOT NULL,
  ALTER COLUMN headers SET NOT NULL,
  ALTER COLUMN headers SET DEFAULT '{}',
  ALTER COLUMN payload SET NOT NULL,
  ADD CONSTRAINT payment_outbox_pending_sequence UNIQUE (participant_id, sequence_id),
  ADD CONSTRAINT payment_outbox_pending_once UNIQUE (instruction_id, idempotency_key);
CREATE INDEX payment_outbox_attempts_recent
  ON railhead.payment_outbox_attempts (created_at) WHERE state NOT IN ('DISPATCHING', 'INQUIRING');
DROP INDEX railhead.payment_outbox_pending_watched;
CREATE INDEX payment_outbox_pending_expiry
  ON railhead.payment_outbox_pending (expires_at) WHERE expires_at IS NOT NULL AND NOT outcome_unknown;
CREATE INDEX payment_outbox_pending_unknown
  ON railhead.payment_outbox_pending (rail_type) WHERE outcome_unknown;

ALTER TABLE railhead.payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_append_only;
ALTER TABLE railhead.payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_append_only_rows;
DELETE FROM railhead.schema_migrations WHERE version_id > 7;
