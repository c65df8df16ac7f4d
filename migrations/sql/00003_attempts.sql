-- The append-only archive. Partitioned by outbox_id, not by time, so that the
-- fence UNIQUE (outbox_id, attempt_no) can be enforced; the bounds are the
-- months inside UUIDv7, so that retention stays possible.

CREATE TABLE {cell}.payment_outbox_attempts (
  -- As in pending what has a fixed width comes first, so that nothing is padded.
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
  -- of the pending row, on rows that take an instruction out of it
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
  -- the rest of the pending row
  next_action        text COLLATE "C",
  headers            jsonb,
  payload            jsonb,
  CONSTRAINT payment_outbox_attempts_fence UNIQUE (outbox_id, attempt_no),
  CONSTRAINT payment_outbox_attempts_number CHECK (attempt_no >= 1),
  -- The first UUIDv7 of the year 2200: an id from there on names no month to come.
  CONSTRAINT payment_outbox_attempts_time CHECK (outbox_id < '0699e991-a800-7000-8000-000000000000'),
  CONSTRAINT payment_outbox_attempts_claim CHECK (
    state NOT IN ({claim_states})
    OR (claimed_at IS NOT NULL AND worker_id IS NOT NULL AND completed_at IS NULL AND answers_attempt_no IS NULL)),
  CONSTRAINT payment_outbox_attempts_complete CHECK (
    state NOT IN ({claim_states}, 'CANCELLED')
    OR (payload IS NOT NULL AND headers IS NOT NULL AND priority IS NOT NULL AND enqueued_at IS NOT NULL
        AND next_attempt_at IS NOT NULL AND next_action IS NOT NULL AND send_count IS NOT NULL AND inquiry_count IS NOT NULL)),
  CONSTRAINT payment_outbox_attempts_answers CHECK (answers_attempt_no IS NULL OR answers_attempt_no < attempt_no),
  CONSTRAINT payment_outbox_attempts_no_false_failed CHECK (state <> 'FAILED' OR NOT outcome_unknown),
  CONSTRAINT payment_outbox_attempts_bounds CHECK (
    octet_length(error_message) <= 2000 AND octet_length(rail_reference) <= 256 AND octet_length(rail_code) <= 100
    AND octet_length(error_code) <= 100 AND octet_length(worker_id) <= 200 AND octet_length(actor) <= 200)
) PARTITION BY RANGE (outbox_id);
COMMENT ON TABLE {cell}.payment_outbox_attempts IS
  'Append-only: every claim, outcome, repair and operator act on an instruction is one row. attempt_no numbers the rows '
  'of an instruction 1, 2, 3, ... without gaps; UNIQUE (outbox_id, attempt_no) is the fence: who appends next, owns next.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.attempt_id IS 'Made by the writer before its first try, so that a repeat knows its own row.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.answers_attempt_no IS 'The claim row that this row answers; null where it answers none.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.result IS 'What the rail''s answer proves, in the words of package payment.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.outcome_unknown IS 'As of this row: some send has no trustworthy answer.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.actor IS 'The login that wrote the row.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.code_table IS 'The code table and its version that gave rail_code its class.';

-- At most one execution is ever recorded for an instruction.
CREATE UNIQUE INDEX payment_outbox_attempts_one_dispatched
  ON {cell}.payment_outbox_attempts (outbox_id) WHERE state = 'DISPATCHED';
CREATE INDEX payment_outbox_attempts_reference
  ON {cell}.payment_outbox_attempts (rail_reference) WHERE rail_reference IS NOT NULL;
-- What happened in the last minutes, for people who follow it (payment tail).
-- Claims are left out: their answers say when and by whom they were claimed.
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
