-- The small tables of the transactional outbox that change with every payment: sequences, the
-- registry of keys, pending, and the claims in flight.

CREATE TABLE {cell}.participant_outbox_sequences (
  participant_id   text COLLATE "C" NOT NULL,
  next_sequence_id bigint NOT NULL,
  CONSTRAINT participant_outbox_sequences_pk PRIMARY KEY (participant_id),
  CONSTRAINT participant_outbox_sequences_positive CHECK (next_sequence_id >= 1)
) WITH (fillfactor = 10, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000);
COMMENT ON TABLE {cell}.participant_outbox_sequences IS
  'The sequence_id of each participant''s next instruction. The low fillfactor keeps its updates HOT.';

-- In this table and in payment_outbox_pending, columns of fixed width come first. Between columns
-- of text each number would be padded to its alignment, and WAL would hold the padding too.
CREATE TABLE {cell}.payment_outbox_keys (
  outbox_id       uuid        NOT NULL,
  rail_key        uuid        NOT NULL,
  sequence_id     bigint      NOT NULL,
  created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  instruction_id  text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  participant_id  text COLLATE "C" NOT NULL,
  fingerprint     bytea       NOT NULL,
  enqueued_by     text COLLATE "C" NOT NULL DEFAULT session_user,
  CONSTRAINT payment_outbox_keys_pk PRIMARY KEY (outbox_id),
  CONSTRAINT payment_outbox_keys_once UNIQUE (instruction_id, idempotency_key),
  CONSTRAINT payment_outbox_keys_sequence UNIQUE (participant_id, sequence_id),
  CONSTRAINT payment_outbox_keys_rail_key UNIQUE (rail_key),
  CONSTRAINT payment_outbox_keys_fingerprint_sha256 CHECK (octet_length(fingerprint) = 32)
);
COMMENT ON TABLE {cell}.payment_outbox_keys IS
  'The permanent registry: one row for every instruction that was ever enqueued. It guarantees, at every isolation '
  'level and after the instruction has left the archive, that one key stands for one instruction, and one number '
  'of a participant too.';
COMMENT ON COLUMN {cell}.payment_outbox_keys.fingerprint IS
  'SHA-256 over participant, rail and payload (payment_outbox_fingerprint).';
COMMENT ON COLUMN {cell}.payment_outbox_keys.rail_key IS
  'The key by which the rail de-duplicates (payment_rail_key). The rail receives it as the letters rh and its 32 '
  'hexadecimal digits.';

CREATE TABLE {cell}.payment_outbox_pending (
  outbox_id       uuid        NOT NULL DEFAULT {cell}.uuidv7(),
  sequence_id     bigint      NOT NULL,
  next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  created_at      timestamptz NOT NULL DEFAULT now(),
  expires_at      timestamptz,
  first_sent_at   timestamptz,
  last_sent_at    timestamptz,
  attempt_count   integer     NOT NULL DEFAULT 0,
  send_count      integer     NOT NULL DEFAULT 0,
  inquiry_count   integer     NOT NULL DEFAULT 0,
  priority        smallint    NOT NULL DEFAULT 1,
  outcome_unknown boolean     NOT NULL DEFAULT false,
  provisional     boolean     NOT NULL DEFAULT false,
  instruction_id  text COLLATE "C" NOT NULL,
  participant_id  text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  rail_type       text COLLATE "C" NOT NULL,
  next_action     text COLLATE "C" NOT NULL DEFAULT 'SEND',
  render_version  text COLLATE "C",
  headers         jsonb       NOT NULL DEFAULT '{}',
  payload         jsonb       NOT NULL,
  CONSTRAINT payment_outbox_pending_pk PRIMARY KEY (outbox_id),
  CONSTRAINT payment_outbox_pending_sequence UNIQUE (participant_id, sequence_id),
  CONSTRAINT payment_outbox_pending_once UNIQUE (instruction_id, idempotency_key),
  -- There is one check for all columns, because each enqueue parses the text of every check again.
  -- An instruction that a rail has accepted provisionally has an unknown outcome, and only an
  -- instruction with an unknown outcome is inquired about.
  CONSTRAINT payment_outbox_pending_valid CHECK (
    priority BETWEEN 0 AND 2
    AND least(attempt_count, send_count, inquiry_count) >= 0
    AND (next_action = 'SEND' OR next_action = 'INQUIRE' AND outcome_unknown)
    AND (outcome_unknown OR NOT provisional))
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 20000,
        autovacuum_analyze_scale_factor = 0.0, autovacuum_analyze_threshold = 20000);
COMMENT ON TABLE {cell}.payment_outbox_pending IS 'Instructions that are to be claimed. A claim deletes the row.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.attempt_count IS
  'A cache of the last attempt_no. The archive is authoritative.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.priority IS '0 urgent, 1 normal, 2 bulk.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.next_attempt_at IS
  'The due time; infinity if the row is quarantined as UNCLAIMABLE.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.outcome_unknown IS
  'Whether some send has no trustworthy answer. An update never resets it.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.provisional IS
  'Whether the rail has accepted the instruction and its final answer is outstanding. Such an instruction is never '
  'sent again.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.first_sent_at IS
  'The time of the first send that may have reached the rail. The key window starts here.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.last_sent_at IS
  'The time of the latest send that may have reached the rail. The age of a NOT_FOUND is counted from here.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.render_version IS
  'The version of the renderer of the earlier sends. A later send must render the same bytes.';

-- Each rail is a lane. Within a lane the index is in order of priority, then of due time. It does
-- not include outbox_id: if the table was empty when it was last analyzed, the planner would search
-- this whole index for one instruction as readily as the primary key. Its pages are left 40 %
-- empty: with more entries on a page, two worker loops drain a lane 3 to 5 % more slowly.
CREATE INDEX payment_outbox_pending_due
  ON {cell}.payment_outbox_pending (rail_type, priority, next_attempt_at)
  WITH (fillfactor = 60, deduplicate_items = off);
CREATE INDEX payment_outbox_pending_expiry
  ON {cell}.payment_outbox_pending (expires_at)
  WHERE expires_at IS NOT NULL AND NOT outcome_unknown;
-- Few rows have an unknown outcome, and gauges count them every few seconds.
CREATE INDEX payment_outbox_pending_unknown
  ON {cell}.payment_outbox_pending (rail_type) WHERE outcome_unknown;

CREATE TABLE {cell}.payment_outbox_claims (
  claim_id    uuid        NOT NULL,
  worker_id   text COLLATE "C" NOT NULL,
  claimed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  outbox_ids  uuid[]      NOT NULL,
  attempt_nos integer[]   NOT NULL,
  CONSTRAINT payment_outbox_claims_pk PRIMARY KEY (claim_id),
  CONSTRAINT payment_outbox_claims_paired CHECK (cardinality(outbox_ids) = cardinality(attempt_nos)
    AND cardinality(outbox_ids) >= 1)
) WITH (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 500);
COMMENT ON TABLE {cell}.payment_outbox_claims IS
  'Claims in flight, one row for each claim statement. The row is deleted with its last answer. The reaper finds '
  'claims in this table alone.';

CREATE TRIGGER payment_outbox_keys_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_outbox_keys
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_keys ENABLE ALWAYS TRIGGER payment_outbox_keys_append_only;

CREATE TRIGGER payment_outbox_pending_notify
  AFTER INSERT ON {cell}.payment_outbox_pending
  FOR EACH STATEMENT WHEN (
    current_setting('{cell}.notify', true) IS DISTINCT FROM 'off'
    AND NOT pg_try_advisory_xact_lock_shared(hashtextextended('{cell}.outbox_pending', 0)))
  EXECUTE FUNCTION {cell}.notify_outbox_pending();
CREATE TRIGGER payment_outbox_pending_no_truncate
  BEFORE TRUNCATE ON {cell}.payment_outbox_pending
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_pending ENABLE ALWAYS TRIGGER payment_outbox_pending_no_truncate;
CREATE TRIGGER participant_outbox_sequences_no_truncate
  BEFORE TRUNCATE ON {cell}.participant_outbox_sequences
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.participant_outbox_sequences ENABLE ALWAYS TRIGGER participant_outbox_sequences_no_truncate;
CREATE TRIGGER payment_outbox_claims_no_truncate
  BEFORE TRUNCATE ON {cell}.payment_outbox_claims
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_claims ENABLE ALWAYS TRIGGER payment_outbox_claims_no_truncate;

-- An update must not make an unknown outcome certain.
CREATE TRIGGER payment_outbox_pending_sticky
  BEFORE UPDATE OF outcome_unknown ON {cell}.payment_outbox_pending
  FOR EACH ROW WHEN (OLD.outcome_unknown AND NOT NEW.outcome_unknown)
  EXECUTE FUNCTION {cell}.keep_outcome_unknown();
ALTER TABLE {cell}.payment_outbox_pending ENABLE ALWAYS TRIGGER payment_outbox_pending_sticky;

CREATE TYPE {cell}.outbox_batch_item AS (
  item integer, instruction_id text COLLATE "C", participant_id text COLLATE "C", idempotency_key text COLLATE "C",
    rail_type text COLLATE "C", payload jsonb,
  not_before timestamptz, expires_at timestamptz, priority integer, headers jsonb, send_once boolean,
  error_code text COLLATE "C", error_message text COLLATE "C", error_hint text COLLATE "C",
  error_field text COLLATE "C", error_rule text COLLATE "C"
);
COMMENT ON TYPE {cell}.outbox_batch_item IS 'One item of a batch enqueue, as it was parsed.';
