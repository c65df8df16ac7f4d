-- One copy of an instruction: what a caller ordered is written once, into a table that
-- is partitioned as the archive is, and what identifies it once, into the registry.
-- Rows of pending and of the archive written before carry copies of both, and stay as
-- they are; v_outbox_pending and v_outbox_attempts show the two shapes as one.

CREATE TABLE {cell}.payment_outbox_instructions (
  outbox_id  uuid        NOT NULL,
  not_before timestamptz,
  expires_at timestamptz,
  priority   smallint    NOT NULL,
  send_once  boolean     NOT NULL DEFAULT false,
  rail_type  text COLLATE "C" NOT NULL,
  headers    jsonb       NOT NULL,
  payload    jsonb       NOT NULL,
  CONSTRAINT payment_outbox_instructions_pk PRIMARY KEY (outbox_id),
  CONSTRAINT payment_outbox_instructions_time CHECK (outbox_id < '0699e991-a800-7000-8000-000000000000')
) PARTITION BY RANGE (outbox_id);
COMMENT ON TABLE {cell}.payment_outbox_instructions IS
  'Append-only: the order as the caller gave it, one row an instruction. Who gave it, under which key and number, is in '
  'payment_outbox_keys, whose fingerprint covers participant, rail and payload.';
COMMENT ON COLUMN {cell}.payment_outbox_instructions.not_before IS 'As the caller gave it; pending has the due time that is in force.';
COMMENT ON COLUMN {cell}.payment_outbox_instructions.send_once IS 'The caller wants no send after one that may have reached the rail, but what an operator asks for.';
COMMENT ON COLUMN {cell}.payment_outbox_instructions.expires_at IS 'As the caller gave it; a replay gives another to pending.';

CREATE TRIGGER payment_outbox_instructions_append_only_rows
  BEFORE UPDATE OR DELETE ON {cell}.payment_outbox_instructions
  FOR EACH ROW EXECUTE FUNCTION {cell}.refuse_change();
CREATE TRIGGER payment_outbox_instructions_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_outbox_instructions
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_instructions ENABLE ALWAYS TRIGGER payment_outbox_instructions_append_only_rows;
ALTER TABLE {cell}.payment_outbox_instructions ENABLE ALWAYS TRIGGER payment_outbox_instructions_append_only;

-- Pending is an address, a due time and what the next claim goes by. Participant and
-- rail stay, for fairness and lanes: the fingerprint covers both.
ALTER TABLE {cell}.payment_outbox_pending
  ALTER COLUMN sequence_id DROP NOT NULL,
  ALTER COLUMN instruction_id DROP NOT NULL,
  ALTER COLUMN idempotency_key DROP NOT NULL,
  ALTER COLUMN headers DROP NOT NULL,
  ALTER COLUMN headers DROP DEFAULT,
  ALTER COLUMN payload DROP NOT NULL,
  DROP CONSTRAINT payment_outbox_pending_sequence,
  DROP CONSTRAINT payment_outbox_pending_once;
COMMENT ON COLUMN {cell}.payment_outbox_pending.payload IS 'Null but in rows written before payment_outbox_instructions.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.headers IS 'Null but in rows written before payment_outbox_instructions.';

-- What is unknown, by rail, and what expires, of each rail the earliest first. One
-- index, because an enqueue locks each index of the table: see TestLocksOfAnEnqueue.
DROP INDEX {cell}.payment_outbox_pending_expiry;
DROP INDEX {cell}.payment_outbox_pending_unknown;
CREATE INDEX payment_outbox_pending_watched
  ON {cell}.payment_outbox_pending (outcome_unknown, rail_type, expires_at)
  WHERE outcome_unknown OR expires_at IS NOT NULL;

ALTER TABLE {cell}.payment_outbox_attempts
  ALTER COLUMN sequence_id DROP NOT NULL,
  ALTER COLUMN instruction_id DROP NOT NULL,
  ALTER COLUMN participant_id DROP NOT NULL,
  ALTER COLUMN idempotency_key DROP NOT NULL,
  DROP CONSTRAINT payment_outbox_attempts_complete,
  ADD CONSTRAINT payment_outbox_attempts_complete CHECK (
    state NOT IN ({claim_states}, 'CANCELLED')
    OR (participant_id IS NOT NULL AND priority IS NOT NULL AND enqueued_at IS NOT NULL
        AND next_attempt_at IS NOT NULL AND next_action IS NOT NULL AND send_count IS NOT NULL AND inquiry_count IS NOT NULL)),
  ADD COLUMN xact xid8;
-- A second step: rows that were there keep null, and are older than any feed of events.
ALTER TABLE {cell}.payment_outbox_attempts ALTER COLUMN xact SET DEFAULT pg_current_xact_id();
COMMENT ON COLUMN {cell}.payment_outbox_attempts.xact IS 'The transaction that wrote the row; null in rows written before the column.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.participant_id IS
  'As the pending row said, on rows that take an instruction out of it; null on others, for which the registry says it.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.payload IS 'Null but in rows that took an older pending row, which carried it.';

{include partition_holds}
{include attach_attempt_partition}
{include make_attempt_partitions}
{include ensure_attempt_partitions}
{include refuse_without_payload}

SELECT {cell}.ensure_attempt_partitions(3);
