-- The append-only archive. It is partitioned by outbox_id and not by time, so that UNIQUE
-- (outbox_id, attempt_no), the fencing constraint, can be enforced. The bounds of its partitions
-- are the months inside UUIDv7, so that retention can detach a month.

CREATE TABLE {cell}.payment_outbox_attempts (
  -- As in payment_outbox_pending, columns of fixed width come first, so that none is padded.
  attempt_id         uuid        NOT NULL,
  outbox_id          uuid        NOT NULL,
  sequence_id        bigint      NOT NULL,
  created_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  claimed_at         timestamptz,
  completed_at       timestamptz,
  attempt_no         integer     NOT NULL,
  state              {cell}.outbox_attempt_state NOT NULL,
  answers_attempt_no integer,
  latency_ms         integer,
  profile_version    integer,
  outcome_unknown    boolean     NOT NULL,
  provisional        boolean     NOT NULL,
  -- Copies of columns of the pending row. They are set in rows that take an instruction out of
  -- pending.
  priority           smallint,
  send_count         integer,
  inquiry_count      integer,
  enqueued_at        timestamptz,
  next_attempt_at    timestamptz,
  expires_at         timestamptz,
  first_sent_at      timestamptz,
  last_sent_at       timestamptz,
  instruction_id     text COLLATE "C" NOT NULL,
  participant_id     text COLLATE "C" NOT NULL,
  idempotency_key    text COLLATE "C" NOT NULL,
  rail_type          text COLLATE "C" NOT NULL,
  result             text COLLATE "C",
  rail_reference     text COLLATE "C",
  rail_code          text COLLATE "C",
  code_table         text COLLATE "C",
  error_code         text COLLATE "C",
  error_message      text COLLATE "C",
  worker_id          text COLLATE "C",
  actor              text COLLATE "C" NOT NULL DEFAULT session_user,
  render_version     text COLLATE "C",
  -- The other columns of the pending row.
  next_action        text COLLATE "C",
  headers            jsonb,
  payload            jsonb,
  CONSTRAINT payment_outbox_attempts_fence UNIQUE (outbox_id, attempt_no),
  CONSTRAINT payment_outbox_attempts_number CHECK (attempt_no >= 1),
  -- The bound is the first UUIDv7 of the year 2200. A later id does not name a month for which a
  -- partition can be made.
  CONSTRAINT payment_outbox_attempts_time CHECK (outbox_id < '0699e991-a800-7000-8000-000000000000'),
  CONSTRAINT payment_outbox_attempts_claim CHECK (
    state NOT IN ({claim_states})
    OR (claimed_at IS NOT NULL AND worker_id IS NOT NULL AND completed_at IS NULL AND answers_attempt_no IS NULL)),
  CONSTRAINT payment_outbox_attempts_complete CHECK (
    state NOT IN ({claim_states}, 'CANCELLED')
    OR (payload IS NOT NULL AND headers IS NOT NULL AND priority IS NOT NULL AND enqueued_at IS NOT NULL
        AND next_attempt_at IS NOT NULL AND next_action IS NOT NULL AND send_count IS NOT NULL
          AND inquiry_count IS NOT NULL)),
  CONSTRAINT payment_outbox_attempts_answers CHECK (answers_attempt_no IS NULL OR answers_attempt_no < attempt_no),
  CONSTRAINT payment_outbox_attempts_no_false_failed CHECK (state <> 'FAILED' OR NOT outcome_unknown),
  CONSTRAINT payment_outbox_attempts_bounds CHECK (
    octet_length(error_message) <= 2000 AND octet_length(rail_reference) <= 256 AND octet_length(rail_code) <= 100
    AND octet_length(error_code) <= 100 AND octet_length(worker_id) <= 200 AND octet_length(actor) <= 200)
) PARTITION BY RANGE (outbox_id);
COMMENT ON TABLE {cell}.payment_outbox_attempts IS
  'Append-only: every claim, outcome, repair and operator act on an instruction is one row. attempt_no numbers the '
  'rows of an instruction 1, 2, 3, ... without gaps. UNIQUE (outbox_id, attempt_no) fences stale workers: of two '
  'writers of one number, one succeeds.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.attempt_id IS
  'Chosen by the writer before it first tries to write the row, so that a repeated call recognises its own row.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.answers_attempt_no IS
  'The attempt_no of the claim row that this row answers; null if it answers none.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.result IS
  'What the rail''s answer proves, in the terms of package payment.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.outcome_unknown IS
  'Whether, as of this row, some send has no trustworthy answer.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.actor IS 'The login that wrote the row.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.code_table IS
  'The code table, with its version, by which rail_code was classified.';

-- At most one execution is ever recorded for an instruction.
CREATE UNIQUE INDEX payment_outbox_attempts_one_dispatched
  ON {cell}.payment_outbox_attempts (outbox_id) WHERE state = 'DISPATCHED';
CREATE INDEX payment_outbox_attempts_reference
  ON {cell}.payment_outbox_attempts (rail_reference) WHERE rail_reference IS NOT NULL;
-- This index serves payment tail, which shows the rows of the last minutes. It leaves claims out:
-- the answer to a claim names its time and its worker.
CREATE INDEX payment_outbox_attempts_recent
  ON {cell}.payment_outbox_attempts (created_at) WHERE state NOT IN ({claim_states});

CREATE TRIGGER payment_outbox_attempts_append_only_rows
  BEFORE UPDATE OR DELETE ON {cell}.payment_outbox_attempts
  FOR EACH ROW EXECUTE FUNCTION {cell}.refuse_change();
CREATE TRIGGER payment_outbox_attempts_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_outbox_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_append_only_rows;
ALTER TABLE {cell}.payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_append_only;
