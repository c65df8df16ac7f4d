-- Each fact of an instruction is stored once: the order of the caller in
-- payment_outbox_instructions, which is partitioned as the archive is, and the identity of the
-- instruction in the registry. Older rows of pending and of the archive hold copies of both and
-- stay as they are. v_outbox_pending and v_outbox_attempts show rows of both shapes alike.

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
  'Append-only: the order of the caller, one row for each instruction. payment_outbox_keys holds the caller, the '
  'key and the number of the instruction; its fingerprint covers participant, rail and payload.';
COMMENT ON COLUMN {cell}.payment_outbox_instructions.not_before IS
  'The value that the caller gave. The due time in force is in payment_outbox_pending.';
COMMENT ON COLUMN {cell}.payment_outbox_instructions.send_once IS
  'Whether the instruction must not be sent again, unless an operator asks for it, after a send that may have '
  'reached the rail.';
COMMENT ON COLUMN {cell}.payment_outbox_instructions.expires_at IS
  'The value that the caller gave. A replay sets another one in payment_outbox_pending.';

CREATE TRIGGER payment_outbox_instructions_append_only_rows
  BEFORE UPDATE OR DELETE ON {cell}.payment_outbox_instructions
  FOR EACH ROW EXECUTE FUNCTION {cell}.refuse_change();
CREATE TRIGGER payment_outbox_instructions_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_outbox_instructions
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_instructions ENABLE ALWAYS TRIGGER payment_outbox_instructions_append_only_rows;
ALTER TABLE {cell}.payment_outbox_instructions ENABLE ALWAYS TRIGGER payment_outbox_instructions_append_only;

-- A pending row holds the id, the due time and what the next claim needs. It keeps participant and
-- rail, for fairness and lanes; the fingerprint covers both.
ALTER TABLE {cell}.payment_outbox_pending
  ALTER COLUMN sequence_id DROP NOT NULL,
  ALTER COLUMN instruction_id DROP NOT NULL,
  ALTER COLUMN idempotency_key DROP NOT NULL,
  ALTER COLUMN headers DROP NOT NULL,
  ALTER COLUMN headers DROP DEFAULT,
  ALTER COLUMN payload DROP NOT NULL,
  DROP CONSTRAINT payment_outbox_pending_sequence,
  DROP CONSTRAINT payment_outbox_pending_once;
COMMENT ON COLUMN {cell}.payment_outbox_pending.payload IS
  'Null, except in rows that are older than payment_outbox_instructions.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.headers IS
  'Null, except in rows that are older than payment_outbox_instructions.';

-- This index finds the unknown outcomes of a rail, and the instructions of a rail that expire, the
-- earliest first. It is one index, because an enqueue locks each index of the table: see
-- TestLocksOfAnEnqueue.
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
        AND next_attempt_at IS NOT NULL AND next_action IS NOT NULL AND send_count IS NOT NULL
          AND inquiry_count IS NOT NULL)),
  ADD COLUMN xact xid8;
-- The default is set in a second step, so that existing rows keep null. They are older than any
-- feed of events.
ALTER TABLE {cell}.payment_outbox_attempts ALTER COLUMN xact SET DEFAULT pg_current_xact_id();
COMMENT ON COLUMN {cell}.payment_outbox_attempts.xact IS
  'The transaction that wrote the row; null in rows that are older than this column.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.participant_id IS
  'The participant of the pending row, in rows that take an instruction out of pending; null in other rows, whose '
  'participant is in the registry.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.payload IS
  'Null, except in rows that claimed an older pending row with a payload of its own.';

{include partition_holds}
{include attach_attempt_partition}
{include make_attempt_partitions}
{include ensure_attempt_partitions}
{include refuse_without_payload}

SELECT {cell}.ensure_attempt_partitions(3);
