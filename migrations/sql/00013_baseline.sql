-- Tables of facts that the checks of the schema use, and the settings of this cell.

-- function uuidv7_from
CREATE OR REPLACE FUNCTION {cell}.uuidv7_from(micros bigint) RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
  SELECT pg_catalog.encode(
    pg_catalog.int8send(
      (($1 OPERATOR(pg_catalog./) 1000) OPERATOR(pg_catalog.<<) 16)
        OPERATOR(pg_catalog.|) 28672
        OPERATOR(pg_catalog.|) (($1 OPERATOR(pg_catalog.%) 1000) OPERATOR(pg_catalog.*) 4096 OPERATOR(pg_catalog./) 1000))
      OPERATOR(pg_catalog.||) pg_catalog.substring(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()), 9),
    'hex')::pg_catalog.uuid
$$;
-- end of uuidv7_from

-- function uuidv7
DO $install$
BEGIN
  IF to_regprocedure('pg_catalog.uuidv7()') IS NOT NULL THEN
    CREATE OR REPLACE FUNCTION {cell}.uuidv7() RETURNS uuid
    LANGUAGE sql VOLATILE PARALLEL SAFE
    AS 'SELECT pg_catalog.uuidv7()';
  ELSE
    CREATE OR REPLACE FUNCTION {cell}.uuidv7() RETURNS uuid
    LANGUAGE plpgsql VOLATILE PARALLEL SAFE
    SET search_path = pg_catalog, pg_temp
    AS $body$
    DECLARE
      micros bigint := floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    BEGIN
      RETURN {cell}.uuidv7_from(micros);
    END
    $body$;
  END IF;
END
$install$;
-- end of uuidv7

-- function uuidv7_floor
CREATE OR REPLACE FUNCTION {cell}.uuidv7_floor(moment timestamptz) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT encode(int8send((floor(extract(epoch FROM moment) * 1000)::bigint << 16)) || int8send(0), 'hex')::uuid
$$;
-- end of uuidv7_floor

-- function uuidv7_time
CREATE OR REPLACE FUNCTION {cell}.uuidv7_time(id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT to_timestamp(('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
$$;
-- end of uuidv7_time

-- function refuse_change
CREATE OR REPLACE FUNCTION {cell}.refuse_change() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'P0001',
    MESSAGE = CASE WHEN strpos(TG_NAME, '_append_only') > 0
      THEN format('%I.%I is append-only: %s is refused', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_OP)
      ELSE format('%s of %I.%I is refused', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME) END,
    HINT = CASE WHEN strpos(TG_NAME, '_append_only') > 0
      THEN 'Append a row that records what is true now; rows are never changed or removed.'
      ELSE 'Payments depend on its rows. They are changed by components, and by functions that log the operator '
        'and the reason.' END;
END
$$;
-- end of refuse_change

-- function notify_outbox_pending
CREATE OR REPLACE FUNCTION {cell}.notify_outbox_pending() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  RETURN NULL;
END
$$;
-- end of notify_outbox_pending

-- function keep_outcome_unknown
CREATE OR REPLACE FUNCTION {cell}.keep_outcome_unknown() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'P0001',
    MESSAGE = format('the outcome of %s stays unknown until there is evidence', OLD.outbox_id),
    HINT = 'Record the rail''s answer, or resolve it with evidence.';
END
$$;
-- end of keep_outcome_unknown

-- function payment_rail_key
CREATE OR REPLACE FUNCTION {cell}.payment_rail_key(namespace uuid, participant_id text, instruction_id text,
  idempotency_key text) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE
AS $$
  SELECT pg_catalog.encode(pg_catalog.substring(pg_catalog.sha256(pg_catalog.convert_to(
    $1::pg_catalog.text OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $2
      OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $3
      OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $4, 'UTF8')), 1, 16), 'hex')::pg_catalog.uuid
$$;
-- end of payment_rail_key

-- function server_timeline
CREATE OR REPLACE FUNCTION {cell}.server_timeline() RETURNS bigint
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE WHEN NOT pg_is_in_recovery()
    THEN ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::bigint END
$$;
-- end of server_timeline

CREATE TYPE {cell}.outbox_attempt_state AS ENUM (
  'DISPATCHING', 'DISPATCHED', 'RETRYABLE', 'FAILED', 'ZOMBIE_REQUEUE',
  'INQUIRING', 'ACCEPTED', 'UNKNOWN', 'PARKED', 'CANCELLED', 'REPLAYED', 'LATE_OUTCOME'
);
COMMENT ON TYPE {cell}.outbox_attempt_state IS
  'The state that one row of the archive records; docs/glossary.md defines each. The first five are those of the '
  'original specification.';

CREATE TABLE {cell}.payment_outbox_settings (
  singleton           boolean NOT NULL DEFAULT true,
  allow_second_key    boolean NOT NULL DEFAULT false,
  rail_key_namespace  uuid    NOT NULL DEFAULT gen_random_uuid(),
  payload_bytes_max   integer NOT NULL DEFAULT 65536,
  headers_bytes_max   integer NOT NULL DEFAULT 4096,
  payload_depth_max   integer NOT NULL DEFAULT 16,
  refuse_card_numbers boolean NOT NULL DEFAULT true,
  batch_items_max     integer NOT NULL DEFAULT 10000,
  repeated_within     interval NOT NULL DEFAULT interval '1 day',
  claim_timeout_ms           integer NOT NULL DEFAULT 120000,
  start_within_ms     integer NOT NULL DEFAULT 5000,
  record_within_ms    integer NOT NULL DEFAULT 10000,
  drain_ms            integer NOT NULL DEFAULT 30000,
  heartbeat_stale_ms  integer NOT NULL DEFAULT 15000,
  budget_version      integer NOT NULL DEFAULT 1,
  CONSTRAINT payment_outbox_settings_pk PRIMARY KEY (singleton),
  CONSTRAINT payment_outbox_settings_one_row CHECK (singleton),
  CONSTRAINT payment_outbox_settings_bounds CHECK (
    payload_bytes_max BETWEEN 256 AND 1048576
    AND headers_bytes_max BETWEEN 256 AND 65536
    AND payload_depth_max BETWEEN 2 AND 64
    AND batch_items_max BETWEEN 1 AND 100000
    AND repeated_within BETWEEN interval '0' AND interval '365 days'),
  -- These are the bounds of payment.TimeBudget. keep_time_budget checks the profiles in force.
  CONSTRAINT payment_outbox_settings_budget CHECK (
    claim_timeout_ms BETWEEN 1000 AND 3600000
    AND start_within_ms BETWEEN 10 AND 60000
    AND record_within_ms BETWEEN 10 AND 60000
    AND drain_ms BETWEEN 10 AND 600000
    AND heartbeat_stale_ms BETWEEN 100 AND 3600000
    AND start_within_ms + record_within_ms + drain_ms < claim_timeout_ms
    AND budget_version >= 1)
);
COMMENT ON TABLE {cell}.payment_outbox_settings IS 'The settings of this cell, in one row.';
COMMENT ON COLUMN {cell}.payment_outbox_settings.allow_second_key IS
  'Whether a participant may enqueue one instruction_id under a second idempotency key (else RH007).';
COMMENT ON COLUMN {cell}.payment_outbox_settings.refuse_card_numbers IS
  'Whether an enqueue refuses card numbers in payloads (RH008).';
COMMENT ON COLUMN {cell}.payment_outbox_settings.rail_key_namespace IS
  'The constant of this cell from which rail keys are derived. It never changes: with another value, a repeated '
  'call would get another rail key, and the payment would be made twice.';
COMMENT ON COLUMN {cell}.payment_outbox_settings.repeated_within IS
  'How long after the end of a suspension callers may repeat calls that a restore has forgotten. A send of an '
  'instruction that is enqueued within this time does not count as a first send.';
COMMENT ON COLUMN {cell}.payment_outbox_settings.claim_timeout_ms IS
  'The age at which an open claim is recovered, even if its worker is alive.';
COMMENT ON COLUMN {cell}.payment_outbox_settings.start_within_ms IS
  'The age up to which the worker of a claim may send the first byte.';
COMMENT ON COLUMN {cell}.payment_outbox_settings.record_within_ms IS 'The time limit for recording an outcome.';
COMMENT ON COLUMN {cell}.payment_outbox_settings.drain_ms IS
  'The time limit for sends in flight when their process is stopped.';
COMMENT ON COLUMN {cell}.payment_outbox_settings.heartbeat_stale_ms IS
  'The time without a heartbeat after which a component counts as dead, and after which a sender starts no more '
  'sends.';
COMMENT ON COLUMN {cell}.payment_outbox_settings.budget_version IS
  'Counts the changes of claim_timeout_ms, start_within_ms, record_within_ms, drain_ms and heartbeat_stale_ms. '
  'Each heartbeat names the version that its component uses.';
INSERT INTO {cell}.payment_outbox_settings DEFAULT VALUES;
CREATE TRIGGER payment_outbox_settings_namespace
  BEFORE UPDATE OF rail_key_namespace ON {cell}.payment_outbox_settings
  FOR EACH ROW WHEN (OLD.rail_key_namespace IS DISTINCT FROM NEW.rail_key_namespace)
  EXECUTE FUNCTION {cell}.refuse_change();
-- function number_time_budget
CREATE OR REPLACE FUNCTION {cell}.number_time_budget() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  NEW.budget_version := OLD.budget_version + CASE
    WHEN (NEW.claim_timeout_ms, NEW.start_within_ms, NEW.record_within_ms, NEW.drain_ms, NEW.heartbeat_stale_ms)
      IS DISTINCT FROM (OLD.claim_timeout_ms, OLD.start_within_ms, OLD.record_within_ms, OLD.drain_ms,
        OLD.heartbeat_stale_ms)
    THEN 1 ELSE 0 END;
  RETURN NEW;
END
$$;
-- end of number_time_budget

CREATE TRIGGER payment_outbox_settings_numbered
  BEFORE UPDATE ON {cell}.payment_outbox_settings
  FOR EACH ROW EXECUTE FUNCTION {cell}.number_time_budget();
ALTER TABLE {cell}.payment_outbox_settings ENABLE ALWAYS TRIGGER payment_outbox_settings_numbered;
CREATE TRIGGER payment_outbox_settings_kept
  BEFORE DELETE OR TRUNCATE ON {cell}.payment_outbox_settings
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_settings ENABLE ALWAYS TRIGGER payment_outbox_settings_namespace;
ALTER TABLE {cell}.payment_outbox_settings ENABLE ALWAYS TRIGGER payment_outbox_settings_kept;

CREATE TABLE {cell}.payment_forbidden_keys (
  key text COLLATE "C" NOT NULL,
  CONSTRAINT payment_forbidden_keys_pk PRIMARY KEY (key),
  CONSTRAINT payment_forbidden_keys_folded CHECK (key = lower(key) AND key <> '')
);
COMMENT ON TABLE {cell}.payment_forbidden_keys IS
  'Keys that a payload, at any depth, and headers must not hold, in upper or lower case (RH004): documents, '
  'secrets and card data stay outside Railhead.';
INSERT INTO {cell}.payment_forbidden_keys (key)
SELECT unnest(ARRAY[
  'body', 'content', 'raw', 'vector', 'embedding', 'secret', 'token', 'password', 'ssn',
  'personal_data', 'pan', 'card_number', 'cvv', 'cvc', 'pin', 'track1', 'track2']);

CREATE TABLE {cell}.payment_currencies (
  code     text COLLATE "C" NOT NULL,
  exponent smallint NOT NULL,
  CONSTRAINT payment_currencies_pk PRIMARY KEY (code),
  CONSTRAINT payment_currencies_shape CHECK (code ~ '^[A-Z]{3}$' AND exponent BETWEEN 0 AND 4)
);
COMMENT ON TABLE {cell}.payment_currencies IS
  'The currencies of ISO 4217 list one, up to amendment 180, that have a minor unit, with its number of digits.';
INSERT INTO {cell}.payment_currencies (code, exponent) VALUES
  ('AED', 2),
  ('AFN', 2),
  ('ALL', 2),
  ('AMD', 2),
  ('AOA', 2),
  ('ARS', 2),
  ('AUD', 2),
  ('AWG', 2),
  ('AZN', 2),
  ('BAM', 2),
  ('BBD', 2),
  ('BDT', 2),
  ('BHD', 3),
  ('BIF', 0),
  ('BMD', 2),
  ('BND', 2),
  ('BOB', 2),
  ('BOV', 2),
  ('BRL', 2),
  ('BSD', 2),
  ('BTN', 2),
  ('BWP', 2),
  ('BYN', 2),
  ('BZD', 2),
  ('CAD', 2),
  ('CDF', 2),
  ('CHE', 2),
  ('CHF', 2),
  ('CHW', 2),
  ('CLF', 4),
  ('CLP', 0),
  ('CNY', 2),
  ('COP', 2),
  ('COU', 2),
  ('CRC', 2),
  ('CUP', 2),
  ('CVE', 2),
  ('CZK', 2),
  ('DJF', 0),
  ('DKK', 2),
  ('DOP', 2),
  ('DZD', 2),
  ('EGP', 2),
  ('ERN', 2),
  ('ETB', 2),
  ('EUR', 2),
  ('FJD', 2),
  ('FKP', 2),
  ('GBP', 2),
  ('GEL', 2),
  ('GHS', 2),
  ('GIP', 2),
  ('GMD', 2),
  ('GNF', 0),
  ('GTQ', 2),
  ('GYD', 2),
  ('HKD', 2),
  ('HNL', 2),
  ('HTG', 2),
  ('HUF', 2),
  ('IDR', 2),
  ('ILS', 2),
  ('INR', 2),
  ('IQD', 3),
  ('IRR', 2),
  ('ISK', 0),
  ('JMD', 2),
  ('JOD', 3),
  ('JPY', 0),
  ('KES', 2),
  ('KGS', 2),
  ('KHR', 2),
  ('KMF', 0),
  ('KPW', 2),
  ('KRW', 0),
  ('KWD', 3),
  ('KYD', 2),
  ('KZT', 2),
  ('LAK', 2),
  ('LBP', 2),
  ('LKR', 2),
  ('LRD', 2),
  ('LSL', 2),
  ('LYD', 3),
  ('MAD', 2),
  ('MDL', 2),
  ('MGA', 2),
  ('MKD', 2),
  ('MMK', 2),
  ('MNT', 2),
  ('MOP', 2),
  ('MRU', 2),
  ('MUR', 2),
  ('MVR', 2),
  ('MWK', 2),
  ('MXN', 2),
  ('MXV', 2),
  ('MYR', 2),
  ('MZN', 2),
  ('NAD', 2),
  ('NGN', 2),
  ('NIO', 2),
  ('NOK', 2),
  ('NPR', 2),
  ('NZD', 2),
  ('OMR', 3),
  ('PAB', 2),
  ('PEN', 2),
  ('PGK', 2),
  ('PHP', 2),
  ('PKR', 2),
  ('PLN', 2),
  ('PYG', 0),
  ('QAR', 2),
  ('RON', 2),
  ('RSD', 2),
  ('RUB', 2),
  ('RWF', 0),
  ('SAR', 2),
  ('SBD', 2),
  ('SCR', 2),
  ('SDG', 2),
  ('SEK', 2),
  ('SGD', 2),
  ('SHP', 2),
  ('SLE', 2),
  ('SOS', 2),
  ('SRD', 2),
  ('SSP', 2),
  ('STN', 2),
  ('SVC', 2),
  ('SYP', 2),
  ('SZL', 2),
  ('THB', 2),
  ('TJS', 2),
  ('TMT', 2),
  ('TND', 3),
  ('TOP', 2),
  ('TRY', 2),
  ('TTD', 2),
  ('TWD', 2),
  ('TZS', 2),
  ('UAH', 2),
  ('UGX', 0),
  ('USD', 2),
  ('USN', 2),
  ('UYI', 0),
  ('UYU', 2),
  ('UYW', 4),
  ('UZS', 2),
  ('VED', 2),
  ('VES', 2),
  ('VND', 0),
  ('VUV', 0),
  ('WST', 2),
  ('XAF', 0),
  ('XCD', 2),
  ('XCG', 2),
  ('XOF', 0),
  ('XPF', 0),
  ('YER', 2),
  ('ZAR', 2),
  ('ZMW', 2),
  ('ZWG', 2);

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

-- A pending row holds the id, the due time and what the next claim needs. It keeps participant and
-- rail, for fairness and lanes; the fingerprint covers both. What else identifies the instruction is
-- in payment_outbox_keys, and what was ordered in payment_outbox_instructions.
CREATE TABLE {cell}.payment_outbox_pending (
  outbox_id       uuid        NOT NULL DEFAULT {cell}.uuidv7(),
  sequence_id     bigint,
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
  instruction_id  text COLLATE "C",
  participant_id  text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C",
  rail_type       text COLLATE "C" NOT NULL,
  next_action     text COLLATE "C" NOT NULL DEFAULT 'SEND',
  render_version  text COLLATE "C",
  headers         jsonb,
  payload         jsonb,
  CONSTRAINT payment_outbox_pending_pk PRIMARY KEY (outbox_id),
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
COMMENT ON COLUMN {cell}.payment_outbox_pending.payload IS
  'Null, except in rows that are older than payment_outbox_instructions.';
COMMENT ON COLUMN {cell}.payment_outbox_pending.headers IS
  'Null, except in rows that are older than payment_outbox_instructions.';
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
-- This index finds the unknown outcomes of a rail, and the instructions of a rail that expire, the
-- earliest first. It is one index, because an enqueue locks each index of the table: see
-- TestLocksOfAnEnqueue.
CREATE INDEX payment_outbox_pending_watched
  ON {cell}.payment_outbox_pending (outcome_unknown, rail_type, expires_at)
  WHERE outcome_unknown OR expires_at IS NOT NULL;

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

-- The append-only archive. It is partitioned by outbox_id and not by time, so that UNIQUE
-- (outbox_id, attempt_no), the fencing constraint, can be enforced. The bounds of its partitions
-- are the months inside UUIDv7, so that retention can detach a month.

CREATE TABLE {cell}.payment_outbox_attempts (
  -- As in payment_outbox_pending, columns of fixed width come first, so that none is padded.
  attempt_id         uuid        NOT NULL,
  outbox_id          uuid        NOT NULL,
  sequence_id        bigint,
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
  instruction_id     text COLLATE "C",
  participant_id     text COLLATE "C",
  idempotency_key    text COLLATE "C",
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
  xact               xid8        DEFAULT pg_current_xact_id(),
  CONSTRAINT payment_outbox_attempts_fence UNIQUE (outbox_id, attempt_no),
  CONSTRAINT payment_outbox_attempts_number CHECK (attempt_no >= 1),
  -- The bound is the first UUIDv7 of the year 2200. A later id does not name a month for which a
  -- partition can be made.
  CONSTRAINT payment_outbox_attempts_time CHECK (outbox_id < '0699e991-a800-7000-8000-000000000000'),
  CONSTRAINT payment_outbox_attempts_claim CHECK (
    state NOT IN ('DISPATCHING', 'INQUIRING')
    OR (claimed_at IS NOT NULL AND worker_id IS NOT NULL AND completed_at IS NULL AND answers_attempt_no IS NULL)),
  CONSTRAINT payment_outbox_attempts_complete CHECK (
    state NOT IN ('DISPATCHING', 'INQUIRING', 'CANCELLED')
    OR (participant_id IS NOT NULL AND priority IS NOT NULL AND enqueued_at IS NOT NULL
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
COMMENT ON COLUMN {cell}.payment_outbox_attempts.xact IS
  'The transaction that wrote the row; null in rows that are older than this column.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.participant_id IS
  'The participant of the pending row, in rows that take an instruction out of pending; null in other rows, whose '
  'participant is in the registry.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.payload IS
  'Null, except in rows that claimed an older pending row with a payload of its own.';
COMMENT ON COLUMN {cell}.payment_outbox_attempts.code_table IS
  'The code table, with its version, by which rail_code was classified.';

-- At most one execution is ever recorded for an instruction.
CREATE UNIQUE INDEX payment_outbox_attempts_one_dispatched
  ON {cell}.payment_outbox_attempts (outbox_id) WHERE state = 'DISPATCHED';
CREATE INDEX payment_outbox_attempts_reference
  ON {cell}.payment_outbox_attempts (rail_reference) WHERE rail_reference IS NOT NULL;

CREATE TRIGGER payment_outbox_attempts_append_only_rows
  BEFORE UPDATE OR DELETE ON {cell}.payment_outbox_attempts
  FOR EACH ROW EXECUTE FUNCTION {cell}.refuse_change();
CREATE TRIGGER payment_outbox_attempts_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_outbox_attempts
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_append_only_rows;
ALTER TABLE {cell}.payment_outbox_attempts ENABLE ALWAYS TRIGGER payment_outbox_attempts_append_only;

-- Tables for operators and components: rails and their profiles, dead letters, heartbeats, and the
-- log of operator acts.

CREATE TABLE {cell}.payment_rail_profiles (
  rail_type  text COLLATE "C" NOT NULL,
  version    integer     NOT NULL,
  profile    jsonb       NOT NULL,
  applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  applied_by text COLLATE "C" NOT NULL DEFAULT session_user,
  reason     text COLLATE "C" NOT NULL,
  CONSTRAINT payment_rail_profiles_pk PRIMARY KEY (rail_type, version),
  CONSTRAINT payment_rail_profiles_shape CHECK (version >= 1 AND jsonb_typeof(profile) = 'object'),
  CONSTRAINT payment_rail_profiles_rail_type CHECK (rail_type ~ '^[a-z][a-z0-9_-]{0,62}$')
);
COMMENT ON TABLE {cell}.payment_rail_profiles IS
  'Every version of every rail''s profile, append-only. Each attempt names the version under which it was made.';

CREATE TABLE {cell}.payment_rails (
  rail_type       text COLLATE "C" NOT NULL,
  profile_version integer,
  paused          boolean     NOT NULL DEFAULT false,
  auto_paused boolean    NOT NULL DEFAULT false,
  paused_by       text COLLATE "C",
  paused_at       timestamptz,
  pause_reason    text COLLATE "C",
  paused_until    timestamptz,
  updated_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  CONSTRAINT payment_rails_pk PRIMARY KEY (rail_type),
  CONSTRAINT payment_rails_profile FOREIGN KEY (rail_type, profile_version) REFERENCES {cell}.payment_rail_profiles,
  CONSTRAINT payment_rails_everything CHECK ((rail_type = '*') = (profile_version IS NULL)),
  CONSTRAINT payment_rails_paused CHECK (NOT paused OR (paused_by IS NOT NULL AND paused_at IS NOT NULL
    AND pause_reason IS NOT NULL)),
  CONSTRAINT payment_rails_paused_until CHECK (paused_until IS NULL OR paused)
) WITH (fillfactor = 50);
COMMENT ON TABLE {cell}.payment_rails IS
  'The rails of this cell, their profile in force, and whether they are paused. The row ''*'' pauses every rail. A '
  'claim takes nothing of a paused rail.';
COMMENT ON COLUMN {cell}.payment_rails.auto_paused IS
  'Whether a relayer made the pause, because the rail refuses our credentials, route or form; paused_by is then '
  'the relayer''s login.';
COMMENT ON COLUMN {cell}.payment_rails.paused_until IS
  'The time at which the reaper ends the pause; null if an operator has to end it.';
INSERT INTO {cell}.payment_rails (rail_type) VALUES ('*');

CREATE TABLE {cell}.payment_paused_participants (
  participant_id text COLLATE "C" NOT NULL,
  paused_by      text COLLATE "C" NOT NULL,
  paused_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  pause_reason   text COLLATE "C" NOT NULL,
  paused_until   timestamptz,
  CONSTRAINT payment_paused_participants_pk PRIMARY KEY (participant_id)
);
COMMENT ON TABLE {cell}.payment_paused_participants IS 'Participants whose instructions are not claimed.';

CREATE TABLE {cell}.payment_closed_gates (
  scope        text COLLATE "C" NOT NULL,
  name         text COLLATE "C" NOT NULL,
  closed_by    text COLLATE "C" NOT NULL,
  closed_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  close_reason text COLLATE "C" NOT NULL,
  closed_until timestamptz,
  CONSTRAINT payment_closed_gates_pk PRIMARY KEY (scope, name),
  CONSTRAINT payment_closed_gates_scope CHECK (scope IN ('cell', 'rail', 'participant')
    AND (scope <> 'cell' OR name = '*'))
);
COMMENT ON TABLE {cell}.payment_closed_gates IS
  'Gates that refuse new instructions (RH014): those of a rail, of a participant or, with the name ''*'', of the '
  'whole cell. Each enqueue checks them.';
COMMENT ON COLUMN {cell}.payment_closed_gates.closed_until IS
  'The time at which the reaper opens the gate; null if an operator has to open it.';

CREATE TABLE {cell}.payment_accepted_timelines (
  system_identifier text COLLATE "C" NOT NULL,
  timeline          bigint      NOT NULL,
  accepted_by       text COLLATE "C" NOT NULL DEFAULT session_user,
  accepted_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  reason            text COLLATE "C" NOT NULL,
  CONSTRAINT payment_accepted_timelines_pk PRIMARY KEY (system_identifier, timeline)
);
COMMENT ON TABLE {cell}.payment_accepted_timelines IS
  'The servers and timelines on which the cell may send: the one on which the cell was created, and those that an '
  'operator has accepted after comparing with the rails.';
INSERT INTO {cell}.payment_accepted_timelines (system_identifier, timeline, reason)
SELECT s.system_identifier::text, {cell}.server_timeline(), 'the cell was made on this server'
FROM pg_control_system() s;

CREATE TABLE {cell}.payment_outbox_suspensions (
  suspension_id     uuid        NOT NULL DEFAULT {cell}.uuidv7(),
  opened_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
  opened_by         text COLLATE "C" NOT NULL DEFAULT session_user,
  worker_id         text COLLATE "C" NOT NULL,
  cause             text COLLATE "C" NOT NULL,
  detail            text COLLATE "C" NOT NULL,
  system_identifier text COLLATE "C" NOT NULL,
  timeline          bigint      NOT NULL,
  server_started_at timestamptz NOT NULL,
  known_until       timestamptz NOT NULL,
  accepted_at       timestamptz,
  accepted_by       text COLLATE "C",
  reason            text COLLATE "C",
  CONSTRAINT payment_outbox_suspensions_pk PRIMARY KEY (suspension_id),
  CONSTRAINT payment_outbox_suspensions_cause CHECK (cause IN ('NEW_SERVER', 'NEW_TIMELINE', 'LOG_WENT_BACK',
    'ROWS_MISSING', 'NO_MEMORY')),
  CONSTRAINT payment_outbox_suspensions_accepted CHECK ((accepted_at IS NULL) = (accepted_by IS NULL)
    AND (accepted_at IS NULL) = (reason IS NULL))
);
COMMENT ON TABLE {cell}.payment_outbox_suspensions IS
  'Periods in which the database may have forgotten committed rows, after a failover, a restore or a snapshot. '
  'While a suspension is open, only lanes that de-duplicate by key are claimed, inside their key window, and no '
  'instruction expires, is cancelled or is replayed. An operator ends it with timeline accept.';
COMMENT ON COLUMN {cell}.payment_outbox_suspensions.known_until IS
  'The newest moment up to which the data is complete. Sends after it may be forgotten. -infinity: not known.';
CREATE UNIQUE INDEX payment_outbox_suspensions_open
  ON {cell}.payment_outbox_suspensions ((accepted_at IS NULL)) WHERE accepted_at IS NULL;

CREATE TABLE {cell}.payment_dead_letters (
  outbox_id      uuid        NOT NULL,
  instruction_id text COLLATE "C" NOT NULL,
  participant_id text COLLATE "C" NOT NULL,
  rail_type      text COLLATE "C" NOT NULL,
  reason         text COLLATE "C" NOT NULL,
  error_code     text COLLATE "C",
  status         text COLLATE "C" NOT NULL DEFAULT 'pending',
  note           text COLLATE "C",
  actor          text COLLATE "C",
  opened_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Copied from the rows of the archive when the letter is opened.
  amount           numeric,
  currency         text COLLATE "C",
  attempts         integer NOT NULL DEFAULT 0,
  first_attempt_at timestamptz,
  last_attempt_at  timestamptz,
  rail_code        text COLLATE "C",
  error_message    text COLLATE "C",
  CONSTRAINT payment_dead_letters_pk PRIMARY KEY (outbox_id),
  CONSTRAINT payment_dead_letters_reason CHECK (reason IN ('FAILED', 'EXPIRED', 'OUTCOME_UNKNOWN', 'CONFLICT',
    'TAMPERED', 'UNCLAIMABLE')),
  CONSTRAINT payment_dead_letters_status CHECK (status IN ('pending', 'acknowledged', 'escalated', 'manual_replay',
    'resolved')),
  CONSTRAINT payment_dead_letters_note CHECK (octet_length(note) <= 2000)
);
COMMENT ON TABLE {cell}.payment_dead_letters IS
  'One row for each instruction that needs, or needed, an operator. A letter is open in every status but '
  'manual_replay and resolved. It outlives the rows of the archive, and keeps what they recorded when it was last '
  'opened.';
COMMENT ON COLUMN {cell}.payment_dead_letters.attempts IS
  'The number of times that the instruction was claimed, for a send or an inquiry.';
COMMENT ON COLUMN {cell}.payment_dead_letters.error_message IS
  'The message of the latest answer that has a message or a rail_code. rail_code is of the same answer.';
COMMENT ON COLUMN {cell}.payment_dead_letters.note IS
  'The reason that the last operator gave who changed the status. actor is that operator.';
CREATE INDEX payment_dead_letters_open
  ON {cell}.payment_dead_letters (reason, rail_type, opened_at) WHERE status NOT IN ('manual_replay', 'resolved');

CREATE TABLE {cell}.outbox_heartbeats (
  name         text COLLATE "C" NOT NULL,
  kind         text COLLATE "C" NOT NULL,
  host         text COLLATE "C" NOT NULL,
  version      text COLLATE "C" NOT NULL,
  started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  last_tick_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  status       text COLLATE "C" NOT NULL,
  activity     text COLLATE "C" NOT NULL DEFAULT '',
  stale_after_ms  bigint   NOT NULL DEFAULT 15000,
  clock_offset_ms bigint,
  beats           bigint NOT NULL DEFAULT 1,
  server_started_at timestamptz NOT NULL DEFAULT pg_postmaster_start_time(),
  tick_before_start timestamptz,
  vouched         boolean NOT NULL DEFAULT false,
  claim_timeout_ms       bigint NOT NULL DEFAULT 0,
  start_within_ms bigint NOT NULL DEFAULT 0,
  budget_version  integer NOT NULL DEFAULT 0,
  lanes           jsonb NOT NULL DEFAULT '[]',
  CONSTRAINT outbox_heartbeats_pk PRIMARY KEY (name),
  CONSTRAINT outbox_heartbeats_kind CHECK (kind IN ('relayer', 'reaper', 'ingest', 'callback', 'events')),
  CONSTRAINT outbox_heartbeats_lanes CHECK (jsonb_typeof(lanes) = 'array'),
  CONSTRAINT outbox_heartbeats_status CHECK (status IN ('starting', 'running', 'draining', 'stopped', 'suspended'))
) WITH (fillfactor = 50);
COMMENT ON TABLE {cell}.outbox_heartbeats IS 'One row for each process start of a component. name is its worker_id.';
COMMENT ON COLUMN {cell}.outbox_heartbeats.stale_after_ms IS
  'The time without a heartbeat after which this component counts as dead: the longest that it may still be using.';
COMMENT ON COLUMN {cell}.outbox_heartbeats.claim_timeout_ms IS
  'The longest claim timeout under which claims of this component may still be open; 0 if it has reported none.';
COMMENT ON COLUMN {cell}.outbox_heartbeats.start_within_ms IS
  'The highest age at which this component may still send the first byte of a claim; 0 if it has reported none.';
COMMENT ON COLUMN {cell}.outbox_heartbeats.budget_version IS
  'The oldest time budget of payment_outbox_settings under which claims of this component may still be open.';
COMMENT ON COLUMN {cell}.outbox_heartbeats.lanes IS
  'The rails that a relayer served at its last heartbeat, and their state; see v_lanes.';
COMMENT ON COLUMN {cell}.outbox_heartbeats.clock_offset_ms IS
  'The database clock minus the clock of the component''s host at the last heartbeat, network delay included.';
COMMENT ON COLUMN {cell}.outbox_heartbeats.beats IS
  'The number of heartbeats that were certainly committed. A component that remembers more of them detects that '
  'rows are missing.';
COMMENT ON COLUMN {cell}.outbox_heartbeats.server_started_at IS 'The start time of the server at the last heartbeat.';
COMMENT ON COLUMN {cell}.outbox_heartbeats.tick_before_start IS
  'The time of the last heartbeat before that start of the server.';
COMMENT ON COLUMN {cell}.outbox_heartbeats.vouched IS
  'Whether the component has compared the data with its own memory since that start of the server, or relies on '
  'components that have, and has found no row missing.';

CREATE TABLE {cell}.payment_operator_log (
  act_id     uuid        NOT NULL DEFAULT {cell}.uuidv7(),
  acted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
  actor      text COLLATE "C" NOT NULL DEFAULT session_user,
  act        text COLLATE "C" NOT NULL,
  subject    text COLLATE "C" NOT NULL,
  outbox_id  uuid,
  reason     text COLLATE "C" NOT NULL,
  detail     jsonb       NOT NULL DEFAULT '{}',
  CONSTRAINT payment_operator_log_pk PRIMARY KEY (act_id),
  CONSTRAINT payment_operator_log_reason CHECK (btrim(reason) <> '' AND octet_length(reason) <= 2000)
);
COMMENT ON TABLE {cell}.payment_operator_log IS
  'Append-only: every act of an operator, every pause that a relayer made, and every pause or closed gate that the '
  'reaper ended.';
CREATE INDEX payment_operator_log_outbox ON {cell}.payment_operator_log (outbox_id) WHERE outbox_id IS NOT NULL;

CREATE TRIGGER payment_rail_profiles_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_rail_profiles
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_rail_profiles ENABLE ALWAYS TRIGGER payment_rail_profiles_append_only;
CREATE TRIGGER payment_operator_log_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_operator_log
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_operator_log ENABLE ALWAYS TRIGGER payment_operator_log_append_only;
CREATE TRIGGER payment_accepted_timelines_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_accepted_timelines
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_accepted_timelines ENABLE ALWAYS TRIGGER payment_accepted_timelines_append_only;
CREATE TRIGGER payment_dead_letters_no_truncate
  BEFORE TRUNCATE ON {cell}.payment_dead_letters
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_dead_letters ENABLE ALWAYS TRIGGER payment_dead_letters_no_truncate;

-- Components open and reopen letters. Every other change of status is an act of an operator.
-- function keep_letter_open
CREATE OR REPLACE FUNCTION {cell}.keep_letter_open() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF pg_has_role(current_user, (SELECT c.relowner FROM pg_class c WHERE c.oid = TG_RELID), 'USAGE') THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION USING
    ERRCODE = '42501',
    MESSAGE = format('the status of the dead letter of %s can''t be changed by an update', OLD.outbox_id),
    HINT = 'Use railhead dead-letter, which logs the operator and the reason.';
END
$$;
-- end of keep_letter_open

CREATE TRIGGER payment_dead_letters_kept_open
  BEFORE UPDATE ON {cell}.payment_dead_letters
  FOR EACH ROW WHEN (NEW.status <> 'pending')
  EXECUTE FUNCTION {cell}.keep_letter_open();
ALTER TABLE {cell}.payment_dead_letters ENABLE ALWAYS TRIGGER payment_dead_letters_kept_open;
CREATE TRIGGER payment_outbox_suspensions_kept
  BEFORE DELETE OR TRUNCATE ON {cell}.payment_outbox_suspensions
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_suspensions ENABLE ALWAYS TRIGGER payment_outbox_suspensions_kept;

CREATE TYPE {cell}.outbox_outcome AS (
  attempt_id uuid, outbox_id uuid, rail_type text COLLATE "C", claim_no integer, state text COLLATE "C",
    result text COLLATE "C",
  rail_reference text COLLATE "C", rail_code text COLLATE "C", code_table text COLLATE "C", error_code text COLLATE "C",
    error_message text COLLATE "C",
  latency_ms integer, worker_id text COLLATE "C", profile_version integer, render_version text COLLATE "C",
  park_attempt_id uuid, dead_reason text COLLATE "C", next_action text COLLATE "C", delay_ms bigint,
  outcome_unknown boolean, provisional boolean, counts_send boolean,
  send_count integer, inquiry_count integer, claimed_at timestamptz
);
COMMENT ON TYPE {cell}.outbox_outcome IS
  'An outcome that a worker, the reaper or a callback appends for an instruction, and what follows from it.';

-- Everything that an enqueue checks by is in one row, so that the enqueue opens one table instead
-- of four. Opening a table costs as much as writing an index entry.
CREATE TABLE {cell}.payment_outbox_rules (
  singleton         boolean NOT NULL DEFAULT true,
  allow_second_key  boolean NOT NULL,
  rail_key_namespace uuid   NOT NULL,
  payload_bytes_max integer NOT NULL,
  headers_bytes_max integer NOT NULL,
  payload_depth_max integer NOT NULL,
  refuse_card_numbers boolean NOT NULL,
  rail_types        text[] COLLATE "C" NOT NULL,
  forbidden         text[] COLLATE "C" NOT NULL,
  digits            jsonb   NOT NULL,
  required          jsonb   NOT NULL,
  closed_gates      uuid[],
  CONSTRAINT payment_outbox_rules_pk PRIMARY KEY (singleton),
  CONSTRAINT payment_outbox_rules_one_row CHECK (singleton)
) WITH (toast_tuple_target = 8160);
COMMENT ON TABLE {cell}.payment_outbox_rules IS
  'Derived by triggers from payment_outbox_settings, payment_forbidden_keys, payment_currencies, '
  'payment_closed_gates, and payment_rails with the profiles in force. It is never changed by hand.';
COMMENT ON COLUMN {cell}.payment_outbox_rules.rail_types IS 'The rails that have a profile in force.';
COMMENT ON COLUMN {cell}.payment_outbox_rules.forbidden IS
  'Patterns for LIKE on the lower-case text of a payload. A match means that the payload may hold a forbidden key. '
  'The patterns omit the key''s opening quote, at which LIKE would stop for every name and value.';
COMMENT ON COLUMN {cell}.payment_outbox_rules.digits IS 'The exponent of each currency, by its code.';
COMMENT ON COLUMN {cell}.payment_outbox_rules.required IS
  'The fields that each rail requires in a payload (required_fields).';
COMMENT ON COLUMN {cell}.payment_outbox_rules.closed_gates IS
  'The marks of payment_closed_gates (gate_mark); null if no gate is closed.';

-- function required_fields
CREATE OR REPLACE FUNCTION {cell}.required_fields() RETURNS jsonb
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce(jsonb_object_agg(n.rail_type, n.paths), '{}')
  FROM (
    SELECT r.rail_type, jsonb_agg(DISTINCT f.path COLLATE "C" ORDER BY f.path COLLATE "C") AS paths
    FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    CROSS JOIN LATERAL (
      SELECT c.rule ->> 'field' AS path
      FROM jsonb_path_query(p.profile, 'lax $.checks.fields[*] ? (!(@.optional == true))', '{}', true) AS c(rule)
      UNION ALL
      SELECT c.path #>> '{}'
      FROM jsonb_path_query(p.profile, 'strict $.checks.required[*]', '{}', true) AS c(path)) f
    WHERE f.path COLLATE "C" <> ''
    GROUP BY r.rail_type) n
$$;
-- end of required_fields

-- function gate_mark
CREATE OR REPLACE FUNCTION {cell}.gate_mark(scope text, name text) RETURNS uuid
LANGUAGE sql STABLE STRICT PARALLEL SAFE
AS $$
  SELECT pg_catalog.encode(pg_catalog.substring(pg_catalog.sha256(pg_catalog.convert_to(
    $1 OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $2, 'UTF8')), 1, 16), 'hex')::pg_catalog.uuid
$$;
-- end of gate_mark

-- function refresh_outbox_rules
CREATE OR REPLACE FUNCTION {cell}.refresh_outbox_rules() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE;
  INSERT INTO {cell}.payment_outbox_rules AS r
    (allow_second_key, rail_key_namespace, payload_bytes_max, headers_bytes_max, payload_depth_max, refuse_card_numbers,
      rail_types, forbidden, digits,
     required, closed_gates)
  SELECT s.allow_second_key, s.rail_key_namespace, s.payload_bytes_max, s.headers_bytes_max, s.payload_depth_max,
    s.refuse_card_numbers, ARRAY(SELECT p.rail_type FROM {cell}.payment_rails p WHERE p.profile_version IS NOT NULL
      ORDER BY p.rail_type),
    ARRAY(
      SELECT '%' || replace(replace(replace(f.key, E'\\', E'\\\\'), '%', E'\\%'), '_', E'\\_') || '":%'
      FROM {cell}.payment_forbidden_keys f ORDER BY f.key),
    (SELECT coalesce(jsonb_object_agg(c.code, c.exponent), '{}') FROM {cell}.payment_currencies c),
    {cell}.required_fields(),
    (SELECT array_agg({cell}.gate_mark(g.scope, g.name) ORDER BY g.scope, g.name) FROM {cell}.payment_closed_gates g)
  FROM {cell}.payment_outbox_settings s
  ON CONFLICT ON CONSTRAINT payment_outbox_rules_pk DO UPDATE SET
    allow_second_key = excluded.allow_second_key,
    rail_key_namespace = excluded.rail_key_namespace,
    payload_bytes_max = excluded.payload_bytes_max,
    headers_bytes_max = excluded.headers_bytes_max,
    payload_depth_max = excluded.payload_depth_max,
    refuse_card_numbers = excluded.refuse_card_numbers,
    rail_types = excluded.rail_types,
    forbidden = excluded.forbidden,
    digits = excluded.digits,
    required = excluded.required,
    closed_gates = excluded.closed_gates;
  RETURN NULL;
END
$$;
-- end of refresh_outbox_rules

CREATE TRIGGER payment_outbox_settings_rules
  AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_outbox_settings
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refresh_outbox_rules();
CREATE TRIGGER payment_forbidden_keys_rules
  AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_forbidden_keys
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refresh_outbox_rules();
CREATE TRIGGER payment_currencies_rules
  AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_currencies
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refresh_outbox_rules();
CREATE TRIGGER payment_rails_rules
  AFTER INSERT OR UPDATE OF rail_type, profile_version OR DELETE OR TRUNCATE ON {cell}.payment_rails
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refresh_outbox_rules();
CREATE TRIGGER payment_closed_gates_rules
  AFTER INSERT OR UPDATE OF scope, name OR DELETE OR TRUNCATE ON {cell}.payment_closed_gates
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refresh_outbox_rules();
ALTER TABLE {cell}.payment_closed_gates ENABLE ALWAYS TRIGGER payment_closed_gates_rules;
ALTER TABLE {cell}.payment_outbox_settings ENABLE ALWAYS TRIGGER payment_outbox_settings_rules;
ALTER TABLE {cell}.payment_forbidden_keys ENABLE ALWAYS TRIGGER payment_forbidden_keys_rules;
ALTER TABLE {cell}.payment_currencies ENABLE ALWAYS TRIGGER payment_currencies_rules;
ALTER TABLE {cell}.payment_rails ENABLE ALWAYS TRIGGER payment_rails_rules;
-- fires the trigger that makes the row of payment_outbox_rules
UPDATE {cell}.payment_outbox_settings SET singleton = true;

-- No profile in force may let a call outlive its claim.
-- function call_budget_ms
CREATE OR REPLACE FUNCTION {cell}.call_budget_ms(profile jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT sum(coalesce(nullif(t.ms, 0), phase.standard_ms))
  FROM (VALUES ('connect', 3000), ('tls', 3000), ('write', 4000), ('response_header', 15000), ('body', 5000))
    AS phase (name, standard_ms)
  CROSS JOIN LATERAL (
    SELECT sum(part.found[1]::numeric * CASE part.found[2] COLLATE "C"
      WHEN 'h' THEN 3600000 WHEN 'm' THEN 60000 WHEN 's' THEN 1000 WHEN 'ms' THEN 1 WHEN 'ns' THEN 0.000001
      ELSE 0.001 END) AS ms -- us, and both code points of the Greek letter mu
    FROM regexp_matches(($1 -> 'timeouts' ->> phase.name) COLLATE "C", '([0-9.]+)([^0-9.]+)', 'g') AS part (found)) AS t
$$;
-- end of call_budget_ms

-- function keep_time_budget
CREATE OR REPLACE FUNCTION {cell}.keep_time_budget() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  s {cell}.payment_outbox_settings;
  longest record;
BEGIN
  SELECT g.* INTO STRICT s FROM {cell}.payment_outbox_settings g WHERE g.singleton FOR NO KEY UPDATE;
  SELECT r.rail_type, p.version, {cell}.call_budget_ms(p.profile) AS call_ms INTO longest
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  ORDER BY 3 DESC, 1
  LIMIT 1;
  IF longest.call_ms + s.start_within_ms + s.record_within_ms + s.drain_ms >= s.claim_timeout_ms THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('start_within %s ms + a call of rail %s (profile version %s) %s ms + record_within %s ms + drain %s ms = %s ms, must be less than claim_timeout %s ms',
        s.start_within_ms, longest.rail_type, longest.version, trim_scale(longest.call_ms), s.record_within_ms,
          s.drain_ms,
        trim_scale(longest.call_ms + s.start_within_ms + s.record_within_ms + s.drain_ms), s.claim_timeout_ms),
      HINT = 'The reaper would recover a claim whose worker is still calling the rail. Shorten the timeouts of the '
        'profile '
        '(railhead rail apply), or set a longer claim timeout (railhead settings set claim_timeout VALUE).';
  END IF;
  RETURN NULL;
END
$$;
-- end of keep_time_budget

CREATE TRIGGER payment_outbox_settings_keeps_budget
  AFTER UPDATE ON {cell}.payment_outbox_settings
  FOR EACH ROW EXECUTE FUNCTION {cell}.keep_time_budget();
CREATE TRIGGER payment_rails_keeps_budget
  AFTER INSERT OR UPDATE OF rail_type, profile_version ON {cell}.payment_rails
  FOR EACH ROW EXECUTE FUNCTION {cell}.keep_time_budget();
ALTER TABLE {cell}.payment_outbox_settings ENABLE ALWAYS TRIGGER payment_outbox_settings_keeps_budget;
ALTER TABLE {cell}.payment_rails ENABLE ALWAYS TRIGGER payment_rails_keeps_budget;

-- The functions that callers and components execute.

-- function bump_participant_outbox_seq
CREATE OR REPLACE FUNCTION {cell}.bump_participant_outbox_seq(participant_id text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_variable
DECLARE
  sequence_id bigint;
BEGIN
  INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id)
  VALUES (participant_id, 2)
  ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
  DO UPDATE SET next_sequence_id = s.next_sequence_id + 1
  RETURNING s.next_sequence_id - 1 INTO sequence_id;
  RETURN sequence_id;
END
$$;
-- end of bump_participant_outbox_seq

-- function payment_outbox_fingerprint
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_fingerprint(participant_id text, rail_type text, payload jsonb)
  RETURNS bytea
LANGUAGE sql STABLE STRICT PARALLEL SAFE
AS $$
  SELECT pg_catalog.sha256(pg_catalog.convert_to(
    $1 OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $2
      OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $3::pg_catalog.text, 'UTF8'))
$$;
-- end of payment_outbox_fingerprint

-- function payment_outbox_state
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_state(outbox_id uuid) RETURNS text
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RETURN CASE
    WHEN EXISTS (
      SELECT FROM {cell}.payment_dead_letters d
      WHERE d.outbox_id = $1 AND d.reason = 'CONFLICT' AND d.status NOT IN ('manual_replay', 'resolved'))
      THEN 'CONFLICT'
    ELSE coalesce((
      SELECT CASE WHEN p.provisional THEN 'ACCEPTED' WHEN p.outcome_unknown THEN 'UNKNOWN' ELSE 'PENDING' END
      FROM {cell}.payment_outbox_pending p
      WHERE p.outbox_id = $1), (
      SELECT a.state::text
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC
      LIMIT 1))
  END;
END
$$;
-- end of payment_outbox_state

-- function payment_outbox_differs
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_differs(
  outbox_id uuid, not_before timestamptz, expires_at timestamptz, priority integer, send_once boolean) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  -- Some client libraries truncate nanoseconds to microseconds, and others round them.
  unit  CONSTANT interval := interval '1 microsecond';
  first record;
  once  boolean := (SELECT i.send_once FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = $1);
BEGIN
  IF EXISTS (SELECT FROM {cell}.payment_dead_letters d WHERE d.outbox_id = $1 AND d.reason = 'UNCLAIMABLE') THEN
    RETURN NULL;
  END IF;
  -- Later rows may hold times that a replay has set.
  SELECT a.next_attempt_at, a.expires_at, a.priority, a.enqueued_at, a.payload IS NOT NULL AS older INTO first
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.enqueued_at IS NOT NULL
  ORDER BY a.attempt_no
  LIMIT 1;
  IF NOT FOUND THEN
    SELECT p.next_attempt_at, p.expires_at, p.priority, p.created_at AS enqueued_at,
      p.payload IS NOT NULL AS older INTO first
    FROM {cell}.payment_outbox_pending p
    WHERE p.outbox_id = $1;
  END IF;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  -- An instruction that is older than payment_outbox_instructions has no send_once: it is sent as
  -- the profile allows.
  once := coalesce(once, CASE WHEN first.older THEN false END);
  IF once IS NULL THEN
    RETURN NULL;
  END IF;
  -- An operator may have changed the due time before the first claim. The log has the original one.
  first.next_attempt_at := coalesce((
    SELECT (l.detail ->> 'from')::timestamptz
    FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = $1 AND l.act IN ('SEND_NOW', 'RESCHEDULE') AND l.detail ->> 'rows' = '0'
    ORDER BY l.act_id
    LIMIT 1), first.next_attempt_at);
  RETURN array_remove(ARRAY[
    CASE WHEN greatest($2, first.enqueued_at) NOT BETWEEN first.next_attempt_at - unit AND first.next_attempt_at + unit
      THEN 'not_before' END,
    CASE WHEN ($3 IS NULL) <> (first.expires_at IS NULL)
      OR $3 NOT BETWEEN first.expires_at - unit AND first.expires_at + unit THEN 'expires_at' END,
    CASE WHEN $4 <> first.priority THEN 'priority' END,
    CASE WHEN $5 <> once THEN 'send_once' END], NULL);
END
$$;
-- end of payment_outbox_differs

-- function card_number_under
CREATE OR REPLACE FUNCTION {cell}.card_number_under(payload jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, {cell}, pg_temp
SET jit = off
AS $$
  WITH RECURSIVE walk(key, value) AS (
    SELECT '', payload - 'amount'
    UNION ALL
    SELECT e.key, e.value
    FROM walk w
    CROSS JOIN LATERAL (
      SELECT o.key, o.value FROM jsonb_each(CASE jsonb_typeof(w.value) WHEN 'object' THEN w.value ELSE '{}' END)
        AS o(key, value)
      UNION ALL
      SELECT '', to_jsonb(o.key) FROM jsonb_object_keys(CASE jsonb_typeof(w.value) WHEN 'object' THEN w.value
        ELSE '{}' END) AS o(key)
      UNION ALL
      SELECT w.key, a.value FROM jsonb_array_elements(CASE jsonb_typeof(w.value) WHEN 'array' THEN w.value
        ELSE '[]' END) AS a(value)) e
    -- id, ids and ref have to be words of the key, as in payerId or end_to_end_id. The others match
    -- anywhere in it.
    WHERE e.key COLLATE "C" !~* 'account|acct|iban|reference'
      AND e.key COLLATE "C" !~ '(^|[^A-Za-z])([Ii]ds?|IDS?|[Rr]ef|REF)($|[^A-Za-z])|[a-z0-9](Ids?|IDS?|Ref|REF)($|[^a-z])'
  ),
  -- Runs of digits, and digits in printed groups.
  candidate AS (
    SELECT w.key, translate(m.found[1], ' -', '') COLLATE "C" AS digits
    FROM walk w
    CROSS JOIN LATERAL (
      SELECT regexp_matches((w.value #>> '{}') COLLATE "C", '(?<![0-9A-Za-z])([0-9]{13,19})(?![0-9A-Za-z])', 'g')
      UNION ALL
      SELECT regexp_matches((w.value #>> '{}') COLLATE "C",
        '(?<![0-9A-Za-z]|[A-Z]{2}[0-9]{2} )([0-9]{4}(?:(?: [0-9]{4}){3}(?: '
          '[0-9]{3})?|(?:-[0-9]{4}){3}(?:-[0-9]{3})?|[ -][0-9]{6}[ -][0-9]{4,5}))(?![0-9A-Za-z])',
        'g')) AS m(found)
    WHERE jsonb_typeof(w.value) IN ('string', 'number')
  )
  SELECT c.key
  FROM candidate c
  JOIN (VALUES
    ('4', 13, 13), ('4', 16, 16), ('4', 19, 19),                          -- Visa
    ('5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720', 16, 16),               -- Mastercard
    ('3[47]', 15, 15),                                                    -- American Express
    ('30[0-59]|3[689]', 14, 19),                                          -- Diners Club
    ('6011|64[4-9]|65', 16, 19),                                          -- Discover
    ('35(?:2[89]|[3-8])', 16, 19),                                        -- JCB
    ('62|81', 16, 19),                                                    -- UnionPay
    ('50|5[6-8]|6304|6390|67', 13, 19),                                   -- Maestro
    ('220[0-4]', 16, 19),                                                 -- Mir
    ('60|65|8[12]|508|636[23]', 16, 16),                                  -- RuPay, Elo, Hipercard
    ('9792', 16, 16)                                                      -- Troy
  ) AS scheme(head, shortest, longest)
    ON length(c.digits) BETWEEN scheme.shortest AND scheme.longest AND c.digits ~ ('^(?:' || scheme.head || ')')
  WHERE (
    -- The Luhn check: every second digit from the right is doubled, and counts as the sum of its
    -- digits.
    SELECT sum(CASE WHEN n % 2 = 1 THEN d ELSE d * 2 - CASE WHEN d > 4 THEN 9 ELSE 0 END END)
    FROM generate_series(1, length(c.digits)) AS n
    CROSS JOIN LATERAL (SELECT substr(c.digits, length(c.digits) - n + 1, 1)::integer AS d) AS digit) % 10 = 0
  LIMIT 1
$$;
-- end of card_number_under

-- function missing_field
CREATE OR REPLACE FUNCTION {cell}.missing_field(required jsonb, payload jsonb) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT r.path
  FROM jsonb_array_elements_text($1) WITH ORDINALITY AS r(path, n)
  WHERE coalesce($2 #> string_to_array(r.path, '.'), 'null') = 'null'
  ORDER BY r.n
  LIMIT 1
$$;
-- end of missing_field

-- function payment_outbox_violation
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_violation(
  instruction_id text, participant_id text, idempotency_key text, rail_type text, payload jsonb,
  not_before timestamptz, expires_at timestamptz, priority integer, headers jsonb)
RETURNS TABLE (code text, message text, hint text, field text, rule text, detail text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  -- Without a collation of their own, these would use the caller's, by which an I may fold to a
  -- letter other than i.
  amount   CONSTANT text COLLATE "C" := payload ->> 'amount';
  written  CONSTANT text COLLATE "C" := payload::text;
  folded   CONSTANT text COLLATE "C" := lower(written);
  missing  text COLLATE "C";
  facts    record;
BEGIN
  -- One statement reads everything that the checks need. A forbidden key can only be present if its
  -- name occurs in the text as a key; the exact check is below. The depth is only computed if the
  -- text has enough brackets.
  SELECT s.payload_bytes_max, s.headers_bytes_max, s.payload_depth_max, s.refuse_card_numbers,
    EXISTS (
      SELECT FROM {cell}.payment_rails r
      WHERE r.rail_type = payment_outbox_violation.rail_type COLLATE "C"
        AND r.profile_version IS NOT NULL) AS rail_known,
    (SELECT c.exponent FROM {cell}.payment_currencies c
     WHERE c.code = payload ->> 'currency' AND jsonb_typeof(payload -> 'currency') = 'string') AS digits,
    (SELECT r.required -> (rail_type COLLATE "C") FROM {cell}.payment_outbox_rules r) AS required,
    EXISTS (SELECT FROM {cell}.payment_forbidden_keys f
      WHERE strpos(folded, '"' || f.key || '":') > 0) AS maybe_forbidden
  INTO STRICT facts
  FROM {cell}.payment_outbox_settings s;

  code := 'RH002';
  hint := 'See docs/ingest.md for the form of an instruction.';
  CASE
    WHEN instruction_id IS NULL OR length(instruction_id) NOT BETWEEN 1 AND 128 OR instruction_id COLLATE "C" ~ '[^ -~]'
      OR instruction_id COLLATE "C" <> btrim(instruction_id) THEN
      field := 'instruction_id'; rule := 'FORM';
      message := 'instruction_id must be 1 to 128 printable ASCII characters without spaces at '
        'its ends'; RETURN NEXT; RETURN;
    WHEN participant_id IS NULL OR length(participant_id) NOT BETWEEN 1 AND 128 OR participant_id COLLATE "C" ~ '[^ -~]'
      OR participant_id COLLATE "C" <> btrim(participant_id) THEN
      field := 'participant_id'; rule := 'FORM';
      message := 'participant_id must be 1 to 128 printable ASCII characters without spaces at '
        'its ends'; RETURN NEXT; RETURN;
    WHEN idempotency_key IS NULL OR length(idempotency_key) NOT BETWEEN 1 AND 128
      OR idempotency_key COLLATE "C" ~ '[^ -~]'
      OR idempotency_key COLLATE "C" <> btrim(idempotency_key) THEN
      field := 'idempotency_key'; rule := 'FORM';
      message := 'idempotency_key must be 1 to 128 printable ASCII characters without spaces at '
        'its ends'; RETURN NEXT; RETURN;
    WHEN payload IS NULL OR jsonb_typeof(payload) <> 'object' THEN
      field := 'payload'; rule := 'OBJECT';
      message := 'payload must be a JSON object'; RETURN NEXT; RETURN;
    WHEN headers IS NULL OR jsonb_typeof(headers) <> 'object'
      OR headers <> '{}' AND jsonb_path_exists(headers, 'strict $.* ? (@.type() <> "string")') THEN
      field := 'headers'; rule := 'OBJECT';
      message := 'headers must be a JSON object of strings'; RETURN NEXT; RETURN;
    WHEN priority IS NULL OR priority NOT BETWEEN 0 AND 2 THEN
      field := 'priority'; rule := 'RANGE';
      message := 'priority must be 0 (urgent), 1 (normal) or 2 (bulk)'; RETURN NEXT; RETURN;
    WHEN not_before > clock_timestamp() + interval '366 days' OR not_before = '-infinity' THEN
      field := 'not_before'; rule := 'RANGE';
      message := 'not_before must be a moment at most 366 days ahead'; RETURN NEXT; RETURN;
    WHEN expires_at = 'infinity' THEN
      field := 'expires_at'; rule := 'RANGE';
      message := 'expires_at must be a moment; leave it out for an instruction that never expires'; RETURN NEXT; RETURN;
    WHEN not_before >= expires_at THEN
      field := 'expires_at'; rule := 'AFTER_NOT_BEFORE';
      message := 'expires_at must be after not_before'; RETURN NEXT; RETURN;
    WHEN NOT facts.rail_known THEN
      code := 'RH003';
      field := 'rail_type'; rule := 'KNOWN';
      message := format('rail_type %s is not known to this cell', coalesce(quote_literal(left(rail_type, 64)), 'NULL'));
      hint := 'Known rails are in payment_rails; an operator adds one with: railhead rail apply FILE.';
      RETURN NEXT; RETURN;
    WHEN octet_length(written) > facts.payload_bytes_max THEN
      code := 'RH005';
      field := 'payload'; rule := 'SIZE';
      message := format('payload is %s bytes, more than %s', octet_length(written), facts.payload_bytes_max);
      hint := 'Send references to documents, not documents.'; RETURN NEXT; RETURN;
    WHEN octet_length(headers::text) > facts.headers_bytes_max THEN
      code := 'RH005';
      field := 'headers'; rule := 'SIZE';
      message := format('headers are %s bytes, more than %s', octet_length(headers::text), facts.headers_bytes_max);
      hint := 'Headers carry trace context only.'; RETURN NEXT; RETURN;
    WHEN length(written) - length(translate(written, '{[', '')) >= facts.payload_depth_max
      AND jsonb_path_exists(payload, format('strict $.**{%s}', facts.payload_depth_max)::jsonpath) THEN
      code := 'RH005';
      field := 'payload'; rule := 'DEPTH';
      message := format('payload is nested deeper than %s levels', facts.payload_depth_max - 1);
      hint := 'Flatten it.'; RETURN NEXT; RETURN;
    ELSE
      NULL;
  END CASE;

  IF facts.maybe_forbidden THEN
    SELECT format('payload holds the forbidden key "%s"', f.key) INTO message
    FROM jsonb_path_query(payload, 'strict $.** ? (@.type() == "object").keyvalue().key') AS found(key)
    JOIN {cell}.payment_forbidden_keys f ON f.key = lower((found.key #>> '{}') COLLATE "C")
    LIMIT 1;
    IF FOUND THEN
      code := 'RH004';
      field := 'payload'; rule := 'FORBIDDEN_KEY';
      hint := 'Documents, secrets and card data must stay outside Railhead; send a reference '
        'instead.'; RETURN NEXT; RETURN;
    END IF;
  END IF;

  IF headers <> '{}' THEN
    SELECT format('headers hold the forbidden key "%s"', f.key) INTO message
    FROM jsonb_object_keys(headers) AS found(key)
    JOIN {cell}.payment_forbidden_keys f ON f.key = lower(found.key COLLATE "C")
    LIMIT 1;
    IF FOUND THEN
      code := 'RH004';
      field := 'headers'; rule := 'FORBIDDEN_KEY';
      hint := 'Headers carry trace context only. Documents, secrets and card data must stay '
        'outside Railhead.'; RETURN NEXT; RETURN;
    END IF;
  END IF;

  IF facts.refuse_card_numbers THEN
    SELECT CASE WHEN card = '' OR card ~ '[0-9]{6}' THEN 'payload holds a card number'
      ELSE format('payload holds a card number under the key "%s"', left(card, 64)) END INTO message
    FROM {cell}.card_number_under(payload) AS card
    WHERE card IS NOT NULL;
    IF FOUND THEN
      code := 'RH008';
      field := 'payload'; rule := 'CARD_NUMBER';
      hint := 'Card data must stay outside Railhead; send a token of it. An account number, IBAN, reference or id '
        'that only looks like one goes under a key that names it as such.';
      RETURN NEXT; RETURN;
    END IF;
  END IF;

  missing := {cell}.missing_field(facts.required, payload);
  IF missing IS NOT NULL THEN
    field := 'payload.' || missing;
    rule := 'MISSING';
    message := format('payload.%s is missing: rail %s needs it', missing, rail_type);
    hint := 'The fields that a rail requires in a payload are in its configuration and in payment_outbox_rules.';
    RETURN NEXT;
    RETURN;
  END IF;

  hint := 'An amount is a decimal string such as "10.50" with a currency such as "EUR".';
  CASE
    WHEN coalesce(payload -> 'amount', 'null') = 'null' THEN
      field := 'payload.amount'; rule := 'MISSING';
      message := 'payload.amount is missing'; RETURN NEXT; RETURN;
    WHEN coalesce(payload -> 'currency', 'null') = 'null' THEN
      field := 'payload.currency'; rule := 'MISSING';
      message := 'payload.currency is missing'; RETURN NEXT; RETURN;
    WHEN jsonb_typeof(payload -> 'amount') IS DISTINCT FROM 'string'
      OR amount !~ '^(0|[1-9][0-9]{0,18})([.][0-9]{1,4})?$' THEN
      field := 'payload.amount'; rule := 'FORM';
      message := 'payload.amount must be a JSON string with a decimal number: no sign, exponent, leading zero or JSON '
        'number';
      RETURN NEXT; RETURN;
    WHEN facts.digits IS NULL THEN
      field := 'payload.currency'; rule := 'CURRENCY';
      message := 'payload.currency must be an ISO 4217 code that has a minor unit'; RETURN NEXT; RETURN;
    WHEN length(split_part(amount, '.', 2)) > facts.digits THEN
      field := 'payload.amount'; rule := 'DECIMALS';
      message := format('payload.amount has more decimals than the %s of its currency',
        facts.digits); RETURN NEXT; RETURN;
    WHEN amount !~ '[1-9]' THEN
      field := 'payload.amount'; rule := 'ZERO';
      message := 'payload.amount must not be zero'; RETURN NEXT; RETURN;
    WHEN length(amount) > 14 AND amount::numeric * 10::numeric ^ facts.digits::numeric > 9223372036854775807 THEN
      field := 'payload.amount'; rule := 'RANGE';
      message := 'payload.amount is beyond 9223372036854775807 minor units'; RETURN NEXT; RETURN;
    WHEN expires_at <= clock_timestamp() THEN
      code := 'RH006';
      field := 'expires_at'; rule := 'EXPIRED';
      message := 'the instruction has already expired';
      hint := 'Enqueue it with a later expires_at, if it still should be paid.'; RETURN NEXT; RETURN;
    ELSE
      NULL;
  END CASE;

  -- This is the last check, so that only a call that would have been accepted is advised to retry.
  -- If several gates apply, the message names the one that opens last.
  SELECT format('enqueue is closed for %s by %s since %s%s: %s', g.what, g.closed_by,
    to_char(g.closed_at AT TIME ZONE 'UTC', g.form),
      ' until ' || to_char(g.closed_until AT TIME ZONE 'UTC', g.form), g.close_reason),
    CASE g.scope WHEN 'rail' THEN 'rail_type' WHEN 'participant' THEN 'participant_id' ELSE 'cell' END,
    'Closed: ' || string_agg(g.what, ', ') OVER (ORDER BY g.scope ROWS BETWEEN UNBOUNDED PRECEDING
      AND UNBOUNDED FOLLOWING) || '.'
  INTO message, field, detail
  FROM (
    SELECT c.scope, c.closed_by, c.closed_at, c.closed_until, c.close_reason, 'YYYY-MM-DD"T"HH24:MI:SS"Z"' AS form,
      CASE c.scope WHEN 'cell' THEN 'everything' ELSE c.scope || ' ' || c.name END AS what
    FROM {cell}.payment_closed_gates c
    WHERE (c.scope, c.name) IN (('cell', '*'), ('rail', rail_type COLLATE "C"),
      ('participant', participant_id COLLATE "C"))) g
  ORDER BY g.closed_until DESC NULLS FIRST, g.scope
  LIMIT 1;
  IF FOUND THEN
    code := 'RH014';
    rule := 'CLOSED';
    hint := 'Nothing was stored. Send the same call again, with the same key, once enqueue is open.';
    RETURN NEXT;
  END IF;
END
$$;
-- end of payment_outbox_violation

-- function payment_outbox_valid
CREATE OR REPLACE FUNCTION {cell}.payment_outbox_valid(
  instruction_id text, participant_id text, idempotency_key text, payload jsonb,
  not_before timestamptz, expires_at timestamptz, priority integer, headers jsonb, written text,
  payload_bytes_max integer, headers_bytes_max integer, payload_depth_max integer, digits integer,
  refuse_card_numbers boolean) RETURNS boolean
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
  SELECT
    -- Three names of printable ASCII. Names with a space in them are left to
    -- payment_outbox_violation.
    ($1 || E'\n' || $2 || E'\n' || $3) COLLATE "C" ~ E'^[!-~]+\n[!-~]+\n[!-~]+$'
    AND greatest(octet_length($1), octet_length($2), octet_length($3)) <= 128
    AND $7 BETWEEN 0 AND 2
    AND ($5 IS NULL OR isfinite($5) AND $5 <= clock_timestamp() + interval '366 days')
    AND ($6 IS NULL OR isfinite($6) AND $6 > greatest(clock_timestamp(), $5))
    AND ($8 = '{}' OR jsonb_typeof($8) = 'object' AND octet_length($8::text) <= $11
      AND NOT jsonb_path_exists($8, 'strict $.* ? (@.type() <> "string")'))
    AND octet_length($9) <= $10
    -- With fewer brackets than levels, the payload is not too deep.
    AND octet_length($9) - octet_length(replace(replace($9 COLLATE "C", '{', ''), '[', '')) < $12
    -- Digits with which a card number may begin, not after a letter other than the last one of an
    -- escape such as \n, and enough of them or in groups.
    AND NOT ($14
      AND $9 COLLATE "C" ~ '(?:[^0-9A-Zac-eg-mo-qsu-z]|u00[01][0-9a-f])[2-689][0-9]{3}(?:[0-9]{9,15}[^0-9A-Za-z]|[ -][0-9]{4,6}[ -][0-9]{4})')
    -- At most 13 digits before the point and 4 after it are far below the largest amount; one of
    -- them must not be 0. A payload that is not an object has no amount.
    AND jsonb_typeof($4 -> 'amount') = 'string'
    AND ($4 ->> 'amount') ~ '^(?:[1-9][0-9]{0,12}(?:[.][0-9]{1,4})?|0[.][0-9]{0,3}[1-9][0-9]{0,3})$'
    AND octet_length(split_part($4 ->> 'amount', '.', 2)) <= $13
$$;
-- end of payment_outbox_valid

-- function enqueue_is_closed
CREATE OR REPLACE FUNCTION {cell}.enqueue_is_closed(marks uuid[], rail_type text, participant_id text) RETURNS boolean
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
  SELECT $1 IS NOT NULL
    AND $1 && ARRAY[{cell}.gate_mark('cell', '*'), {cell}.gate_mark('rail', $2), {cell}.gate_mark('participant', $3)]
$$;
-- end of enqueue_is_closed

-- function enqueue_payment_outbox
CREATE OR REPLACE FUNCTION {cell}.enqueue_payment_outbox(
  instruction_id text, participant_id text, idempotency_key text, rail_type text, payload jsonb,
  not_before timestamptz DEFAULT NULL, expires_at timestamptz DEFAULT NULL,
  priority integer DEFAULT 1, headers jsonb DEFAULT '{}', send_once boolean DEFAULT false)
RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, replayed boolean, differs text[])
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_variable
DECLARE
  seen   record;
  fault  record;
  closed boolean := false;
BEGIN
  -- An accepted instruction must be flushed to disk, and to the synchronous standby if there is
  -- one. The commit is the caller's, whose login may be set not to wait for that.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;

  FOR look IN 1..2 LOOP
    SELECT k.outbox_id, k.sequence_id, k.created_at, k.participant_id, k.fingerprint, w.print, r.allow_second_key,
      {cell}.payment_rail_key(r.rail_key_namespace, participant_id, instruction_id, idempotency_key) AS rail_key,
      rail_type COLLATE "C" = ANY (r.rail_types)
      AND (r.required -> (rail_type COLLATE "C") IS NULL OR {cell}.missing_field(r.required -> (rail_type COLLATE "C"),
        payload) IS NULL)
      AND NOT lower(w.written COLLATE "C") LIKE ANY (r.forbidden)
      AND (headers = '{}' OR NOT lower(headers::text COLLATE "C") LIKE ANY (r.forbidden))
      AND NOT {cell}.enqueue_is_closed(r.closed_gates, rail_type, participant_id)
      AND {cell}.payment_outbox_valid(instruction_id, participant_id, idempotency_key, payload, not_before, expires_at,
        priority, headers,
        w.written, r.payload_bytes_max, r.headers_bytes_max, r.payload_depth_max,
        (r.digits -> (payload ->> 'currency'))::integer, r.refuse_card_numbers) AS valid
    INTO STRICT seen
    FROM (
      SELECT payload::text AS written, {cell}.payment_outbox_fingerprint(participant_id, rail_type,
        payload) AS print OFFSET 0) w
    JOIN {cell}.payment_outbox_rules r ON r.singleton
    LEFT JOIN {cell}.payment_outbox_keys k
      ON k.instruction_id = instruction_id COLLATE "C" AND k.idempotency_key = idempotency_key COLLATE "C";
    IF seen.outbox_id IS NOT NULL THEN
      IF seen.fingerprint IS DISTINCT FROM seen.print THEN
        RAISE EXCEPTION USING
          ERRCODE = 'RH001',
          MESSAGE = 'this instruction_id and idempotency_key were first used with other content',
          COLUMN = 'idempotency_key', CONSTRAINT = 'SAME_CONTENT',
          DETAIL = CASE WHEN seen.participant_id = participant_id COLLATE "C"
            THEN format('The first instruction is outbox_id %s, sequence_id %s.', seen.outbox_id, seen.sequence_id)
            ELSE 'The first instruction belongs to another participant.' END,
          HINT = 'Repeat a call with exactly the content of the first one. A different payment needs its own '
            'instruction_id.';
      END IF;
      -- The commit of the first call may have reached this server and not yet the synchronous
      -- standby: if its wait is cancelled, its row is visible. A read-only transaction does not
      -- wait for a standby, and this answer must survive a failover too. The message makes the
      -- transaction write WAL.
      PERFORM pg_logical_emit_message(true, 'railhead', 'replayed');
      outbox_id := seen.outbox_id;
      sequence_id := seen.sequence_id;
      created_at := seen.created_at;
      state := {cell}.payment_outbox_state(seen.outbox_id);
      replayed := true;
      differs := {cell}.payment_outbox_differs(seen.outbox_id, not_before, expires_at, priority,
        coalesce(send_once, false));
      RETURN NEXT;
      RETURN;
    END IF;
    -- This transaction has locked the participant's row since the first pass. No open transaction
    -- has enqueued this key, so the hint "Nothing was stored" is true.
    IF closed THEN
      RAISE EXCEPTION USING ERRCODE = fault.code, MESSAGE = fault.message, DETAIL = fault.detail, HINT = fault.hint,
        COLUMN = fault.field, CONSTRAINT = fault.rule;
    END IF;
    -- After the second pass, the row of the key exists but is not visible to this snapshot.
    EXIT WHEN look = 2;

    IF seen.valid IS NOT TRUE THEN
      SELECT f.* INTO fault FROM {cell}.payment_outbox_violation(instruction_id, participant_id, idempotency_key,
        rail_type, payload, not_before, expires_at, priority, headers) f;
      closed := FOUND AND fault.code = 'RH014';
      IF FOUND AND NOT closed THEN
        RAISE EXCEPTION USING ERRCODE = fault.code, MESSAGE = fault.message, HINT = fault.hint,
          COLUMN = fault.field, CONSTRAINT = fault.rule;
      END IF;
    END IF;

    -- The participant's row is the lock: until the caller's transaction ends, no other call
    -- allocates for this participant, so that the checks below stay true. The row exists at every
    -- call but the first, and needs no upsert.
    UPDATE {cell}.participant_outbox_sequences s
    SET next_sequence_id = s.next_sequence_id + 1
    WHERE s.participant_id = participant_id COLLATE "C"
    RETURNING s.next_sequence_id - 1 INTO sequence_id;
    IF NOT FOUND THEN
      sequence_id := {cell}.bump_participant_outbox_seq(participant_id);
    END IF;

    -- If the gate is closed, the key is not inserted, and the second pass looks it up once more.
    INSERT INTO {cell}.payment_outbox_keys AS k
      (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint, rail_key)
    SELECT {cell}.uuidv7_from(m.micros), instruction_id, idempotency_key,
      participant_id, sequence_id, seen.print, seen.rail_key
    FROM (SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros OFFSET 0) m
    WHERE NOT closed AND (seen.allow_second_key OR NOT EXISTS (
      SELECT FROM (
        SELECT o.participant_id, o.idempotency_key FROM {cell}.payment_outbox_keys o
        WHERE o.instruction_id = instruction_id COLLATE "C" OFFSET 0) o
      WHERE o.participant_id = participant_id COLLATE "C" AND o.idempotency_key <> idempotency_key COLLATE "C"))
    ON CONFLICT ON CONSTRAINT payment_outbox_keys_once DO NOTHING
    RETURNING k.outbox_id, k.created_at INTO outbox_id, created_at;
    IF FOUND THEN
      INSERT INTO {cell}.payment_outbox_instructions (outbox_id, not_before, expires_at, priority, send_once, rail_type,
        headers, payload)
      VALUES (outbox_id, not_before, expires_at, priority, coalesce(send_once, false), rail_type, headers, payload);
      INSERT INTO {cell}.payment_outbox_pending (outbox_id, next_attempt_at, created_at, expires_at, priority,
        participant_id, rail_type)
      VALUES (outbox_id, greatest(not_before, created_at), created_at, expires_at, priority, participant_id, rail_type);
      state := 'PENDING';
      replayed := false;
      RETURN NEXT;
      RETURN;
    END IF;

    SELECT o.outbox_id INTO outbox_id
    FROM (
      SELECT o.outbox_id, o.participant_id, o.idempotency_key FROM {cell}.payment_outbox_keys o
      WHERE o.instruction_id = instruction_id COLLATE "C" OFFSET 0) o
    WHERE o.participant_id = participant_id COLLATE "C"
      AND o.idempotency_key <> idempotency_key COLLATE "C" AND NOT seen.allow_second_key
    LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION USING
        ERRCODE = 'RH007',
        MESSAGE = 'this instruction_id is already enqueued under another idempotency_key',
        COLUMN = 'idempotency_key', CONSTRAINT = 'ONE_KEY',
        DETAIL = format('The first instruction is outbox_id %s.', outbox_id),
        HINT = 'A retry repeats the first idempotency_key. A fresh key per retry is how a payment is made twice.';
    END IF;

    -- The key was inserted concurrently, or the gate is closed: return the number (this transaction
    -- still has the row locked) and start the second pass.
    UPDATE {cell}.participant_outbox_sequences s
    SET next_sequence_id = s.next_sequence_id - 1
    WHERE s.participant_id = participant_id COLLATE "C";
  END LOOP;
  RAISE EXCEPTION USING
    ERRCODE = '40001',
    MESSAGE = 'the same key was enqueued by a transaction that this snapshot cannot see',
    HINT = 'Retry the transaction.';
END
$$;
-- end of enqueue_payment_outbox

-- function enqueue_payment_outbox_arrays
CREATE OR REPLACE FUNCTION {cell}.enqueue_payment_outbox_arrays(
  instruction_ids text[], participant_ids text[], idempotency_keys text[], rail_types text[], payloads jsonb[],
  not_befores timestamptz[] DEFAULT NULL, expires_ats timestamptz[] DEFAULT NULL, priorities integer[] DEFAULT NULL,
  headers jsonb[] DEFAULT NULL, send_onces boolean[] DEFAULT NULL, waits boolean DEFAULT false)
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  replayed boolean, error_code text, error_message text, error_hint text, differs text[], error_field text,
    error_rule text, error_detail text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET enable_nestloop = off
SET enable_memoize = off
SET jit = off
AS $$
DECLARE
  tries_max CONSTANT integer := 3;
  looks_max CONSTANT integer := 10;
  n         CONSTANT integer := cardinality(instruction_ids);
  settings  record;
  patience  CONSTANT text := current_setting('lock_timeout');
  briefly   CONSTANT text := CASE WHEN patience <> '0' AND patience::interval < '10ms' THEN patience ELSE '10ms' END;
  prints    bytea[];   -- the fingerprint of each item
  faults    jsonb[];   -- the violation of each item (payment_outbox_violation)
  wants     boolean[]; -- whether the item may need a number, or only the lock
  lockers   text[] COLLATE "C"; -- the participants whose rows are locked
  firsts    bigint[];  -- the first number allocated to each of them
  skips     boolean := false; -- whether participants locked by others are skipped
  missing   boolean;   -- whether further participants have to be locked
  made      text[] COLLATE "C"; -- the participants that enqueue for the first time
  maker     text COLLATE "C";
  fresh     integer[];
  fresh_ids uuid[];
  fresh_nos bigint[];
  fresh_ats timestamptz[];
  keyed     integer;
  undecided integer[];
  one       record;
BEGIN
  waits := coalesce(waits, false);
  -- As in enqueue_payment_outbox, the commit waits until the instructions are durable.
  IF current_setting('synchronous_commit') IN ('off', 'local') THEN
    PERFORM set_config('synchronous_commit', 'on', true);
  END IF;
  IF (n = ALL (ARRAY[cardinality(participant_ids), cardinality(idempotency_keys), cardinality(rail_types),
    cardinality(payloads),
    coalesce(cardinality(not_befores), n), coalesce(cardinality(expires_ats), n), coalesce(cardinality(priorities), n),
    coalesce(cardinality(headers), n), coalesce(cardinality(send_onces), n)])) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'the arrays of a batch must not be null, and must have the same length';
  END IF;
  IF n = 0 THEN
    RETURN;
  END IF;
  SELECT s.batch_items_max, s.allow_second_key, s.rail_key_namespace INTO STRICT settings
  FROM {cell}.payment_outbox_settings s WHERE s.singleton;
  IF n > settings.batch_items_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005',
      MESSAGE = format('a batch holds %s items, more than %s', n, settings.batch_items_max),
      HINT = 'Send it in parts.';
  END IF;

  SELECT array_agg(c.print), array_agg(c.fault), array_agg(c.fault IS NULL OR c.fault ->> 'code' = 'RH014')
  INTO prints, faults, wants
  FROM (
    SELECT w.print,
      CASE
        WHEN a.rail_type = ANY (r.rail_types)
          AND (r.required -> a.rail_type IS NULL OR {cell}.missing_field(r.required -> a.rail_type, a.payload) IS NULL)
          AND NOT lower(w.written COLLATE "C") LIKE ANY (r.forbidden)
          AND (d.headers = '{}' OR NOT lower(d.headers::text COLLATE "C") LIKE ANY (r.forbidden))
          AND NOT {cell}.enqueue_is_closed(r.closed_gates, a.rail_type, a.participant_id)
          AND {cell}.payment_outbox_valid(a.instruction_id, a.participant_id, a.idempotency_key, a.payload,
            a.not_before, a.expires_at,
            d.priority, d.headers, w.written, r.payload_bytes_max, r.headers_bytes_max, r.payload_depth_max,
            (r.digits -> (a.payload ->> 'currency'))::integer, r.refuse_card_numbers)
        THEN NULL
        ELSE (
          SELECT to_jsonb(f) FROM {cell}.payment_outbox_violation(a.instruction_id, a.participant_id, a.idempotency_key,
            a.rail_type,
            a.payload, a.not_before, a.expires_at, d.priority, d.headers) f)
      END AS fault
    FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", $4 COLLATE "C", $5, $6, $7, $8, $9) WITH ORDINALITY
      AS a(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, expires_at, priority,
        headers, item)
    CROSS JOIN LATERAL (
      SELECT CASE WHEN $8 IS NULL THEN 1 ELSE a.priority END AS priority, CASE WHEN $9 IS NULL THEN '{}'
        ELSE a.headers END AS headers) d
    CROSS JOIN LATERAL (
      SELECT a.payload::text AS written, {cell}.payment_outbox_fingerprint(a.participant_id, a.rail_type,
        a.payload) AS print OFFSET 0) w
    JOIN {cell}.payment_outbox_rules r ON r.singleton
    ORDER BY a.item) c;

  FOR try IN 1..tries_max LOOP
    BEGIN
      -- Lock the participants and allocate as many numbers as there may be new instructions. The
      -- following statements see everything that was committed before the locks were granted. If
      -- the gate of a participant is closed, its row is locked too, so that no open transaction has
      -- enqueued a key that is refused here. Unless the call waits, a second pass serves the
      -- participants that never enqueued before.
      lockers := NULL;
      firsts := NULL;
      made := '{}';
      FOR look IN 1..looks_max LOOP
        IF look > 1 OR waits THEN
          made := ARRAY(
            SELECT DISTINCT a.participant_id
            FROM unnest($2 COLLATE "C", wants) AS a(participant_id, wants)
            LEFT JOIN LATERAL (
              SELECT true AS there FROM {cell}.participant_outbox_sequences s
              WHERE s.participant_id = a.participant_id
              LIMIT 1) s ON true
            WHERE a.wants AND s.there IS NULL
            ORDER BY a.participant_id);
        END IF;
        IF waits THEN
          -- New participants are inserted before the rows of the others are locked: a transaction
          -- that this insert waits for needs no lock that this call holds.
          IF made <> '{}' THEN
            INSERT INTO {cell}.participant_outbox_sequences (participant_id, next_sequence_id)
            SELECT m.participant_id, 1
            FROM unnest(made) AS m(participant_id)
            ORDER BY m.participant_id
            ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk DO NOTHING;
          END IF;
          PERFORM FROM {cell}.participant_outbox_sequences s
          WHERE s.participant_id = ANY (ARRAY(
            SELECT a.participant_id FROM unnest($2 COLLATE "C", wants) AS a(participant_id, wants) WHERE a.wants))
          ORDER BY s.participant_id
          FOR NO KEY UPDATE;
        ELSE
          PERFORM set_config('lock_timeout', CASE WHEN skips THEN briefly ELSE '1ms' END, true);
          -- A participant that another transaction is inserting is skipped.
          FOREACH maker IN ARRAY made LOOP
            BEGIN
              INSERT INTO {cell}.participant_outbox_sequences (participant_id, next_sequence_id)
              VALUES (maker, 1)
              ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk DO NOTHING;
            EXCEPTION WHEN lock_not_available THEN
              NULL;
            END;
          END LOOP;
        END IF;
        IF skips THEN
          WITH wanted AS MATERIALIZED (
            SELECT a.participant_id, count(*) AS n
            FROM unnest($2 COLLATE "C", wants) AS a(participant_id, wants)
            LEFT JOIN unnest(lockers) AS mine(participant_id) ON mine.participant_id = a.participant_id
            WHERE a.wants AND mine.participant_id IS NULL
            GROUP BY a.participant_id
          ),
          locked AS MATERIALIZED (
            SELECT w.participant_id, w.n, l.next_sequence_id
            FROM wanted w
            CROSS JOIN LATERAL (
              SELECT l.next_sequence_id FROM {cell}.participant_outbox_sequences l
              WHERE l.participant_id = w.participant_id
              FOR NO KEY UPDATE SKIP LOCKED) l
          ),
          bumped AS (
            INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id)
            SELECT l.participant_id, 1 + l.n
            FROM locked l
            ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
            DO UPDATE SET next_sequence_id = s.next_sequence_id + EXCLUDED.next_sequence_id - 1
          )
          SELECT lockers || array_agg(l.participant_id), firsts || array_agg(l.next_sequence_id),
            count(*) < (SELECT count(*) FROM wanted)
          INTO lockers, firsts, missing
          FROM locked l;
        ELSE
          -- A row lock that the update itself takes writes no WAL record. The join is by range, so
          -- that it probes the index once for each participant.
          WITH wanted AS MATERIALIZED (
            SELECT a.participant_id, count(*) AS n
            FROM unnest($2 COLLATE "C", wants) AS a(participant_id, wants)
            LEFT JOIN unnest(lockers) AS mine(participant_id) ON mine.participant_id = a.participant_id
            WHERE a.wants AND mine.participant_id IS NULL
            GROUP BY a.participant_id
          ),
          bumped AS (
            UPDATE {cell}.participant_outbox_sequences s
            SET next_sequence_id = s.next_sequence_id + w.n
            FROM wanted w
            WHERE s.participant_id >= w.participant_id AND s.participant_id <= w.participant_id
            RETURNING s.participant_id, s.next_sequence_id - w.n AS first
          )
          SELECT lockers || array_agg(b.participant_id), firsts || array_agg(b.first),
            count(*) < (SELECT count(*) FROM wanted)
          INTO lockers, firsts, missing
          FROM bumped b;
        END IF;
        EXIT WHEN NOT missing OR NOT waits AND look = 2;
      END LOOP;
      IF waits AND missing THEN
        RAISE EXCEPTION USING ERRCODE = '40001',
          MESSAGE = 'participants of this batch changed concurrently', HINT = 'Retry the transaction.';
      ELSIF NOT waits AND NOT skips THEN
        PERFORM set_config('lock_timeout', briefly, true);
      END IF;

      WITH candidate AS (
        SELECT a.item::integer AS item, a.instruction_id, a.participant_id, a.idempotency_key, a.rail_type, a.payload,
          a.not_before, a.expires_at,
          CASE WHEN $8 IS NULL THEN 1 ELSE a.priority END AS priority, CASE WHEN $9 IS NULL THEN '{}'
            ELSE a.headers END AS headers,
          a.send_once, a.print, l.first
        FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", $4 COLLATE "C", $5, $6, $7, $8, $9, $10, prints,
          faults) WITH ORDINALITY
          AS a(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, expires_at, priority,
            headers, send_once, print, fault, item)
        JOIN unnest(lockers COLLATE "C", firsts) AS l(participant_id, first) ON l.participant_id = a.participant_id
        LEFT JOIN LATERAL (
          SELECT true AS known
          FROM (
            SELECT k.idempotency_key, k.participant_id FROM {cell}.payment_outbox_keys k
            WHERE k.instruction_id = a.instruction_id OFFSET 0) k
          WHERE k.idempotency_key = a.idempotency_key OR k.participant_id = a.participant_id
            AND NOT settings.allow_second_key
          LIMIT 1) k ON true
        WHERE a.fault IS NULL AND k.known IS NULL
      ),
      -- The first item of each key in the batch, and of each instruction.
      numbered AS MATERIALIZED (
        SELECT c.*, {cell}.uuidv7_from(floor(extract(epoch FROM c.created_at) * 1000000)::bigint) AS outbox_id
        FROM (
          SELECT c.*, clock_timestamp() AS created_at,
            c.first + row_number() OVER (PARTITION BY c.participant_id ORDER BY c.item) - 1 AS sequence_id
          FROM (
            SELECT c.*, row_number() OVER (PARTITION BY c.instruction_id, c.idempotency_key
              ORDER BY c.item) AS nth_of_key,
              row_number() OVER (
                PARTITION BY c.instruction_id, c.participant_id, CASE WHEN settings.allow_second_key
                  THEN c.idempotency_key END
                ORDER BY c.item) AS nth_of_instruction
            FROM candidate c) c
          WHERE c.nth_of_key = 1 AND c.nth_of_instruction = 1) c
      ),
      keyed AS (
        INSERT INTO {cell}.payment_outbox_keys AS k
          (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, fingerprint, rail_key, created_at)
        SELECT n.outbox_id, n.instruction_id, n.idempotency_key, n.participant_id, n.sequence_id, n.print,
          {cell}.payment_rail_key(settings.rail_key_namespace, n.participant_id, n.instruction_id, n.idempotency_key),
            n.created_at
        FROM numbered n
        ORDER BY n.instruction_id, n.idempotency_key
        ON CONFLICT ON CONSTRAINT payment_outbox_keys_once DO NOTHING
        RETURNING true
      ),
      ordered AS (
        INSERT INTO {cell}.payment_outbox_instructions (outbox_id, not_before, expires_at, priority, send_once,
          rail_type, headers, payload)
        SELECT n.outbox_id, n.not_before, n.expires_at, n.priority, coalesce(n.send_once, false), n.rail_type,
          n.headers, n.payload
        FROM numbered n
      ),
      waiting AS (
        INSERT INTO {cell}.payment_outbox_pending (outbox_id, next_attempt_at, created_at, expires_at, priority,
          participant_id, rail_type)
        SELECT n.outbox_id, greatest(n.not_before, n.created_at), n.created_at, n.expires_at, n.priority,
          n.participant_id, n.rail_type
        FROM numbered n
      )
      SELECT (SELECT count(*) FROM keyed), array_agg(n.item), array_agg(n.outbox_id), array_agg(n.sequence_id),
        array_agg(n.created_at)
      INTO keyed, fresh, fresh_ids, fresh_nos, fresh_ats
      FROM (SELECT n.item, n.outbox_id, n.sequence_id, n.created_at FROM numbered n ORDER BY n.item) n;

      -- A key that the call of another participant inserted concurrently would leave a gap in the
      -- numbers: roll this try back and start again.
      IF keyed <> coalesce(cardinality(fresh), 0) THEN
        RAISE EXCEPTION USING ERRCODE = '40001',
          MESSAGE = 'a key of this batch was enqueued meanwhile', HINT = 'Retry the transaction.';
      END IF;
      EXIT;
    EXCEPTION
      WHEN lock_not_available THEN
        IF waits OR skips OR try = tries_max THEN
          RAISE;
        END IF;
        skips := true;
      WHEN serialization_failure OR unique_violation THEN
        IF try = tries_max THEN
          RAISE;
        END IF;
    END;
  END LOOP;

  IF cardinality(fresh) = n THEN
    IF NOT waits THEN
      PERFORM set_config('lock_timeout', patience, true);
    END IF;
    RETURN QUERY
    SELECT f.item, f.outbox_id, f.sequence_id, f.created_at, 'PENDING', false, NULL::text, NULL::text, NULL::text,
      NULL::text[], NULL::text, NULL::text, NULL::text
    FROM unnest(fresh, fresh_ids, fresh_nos, fresh_ats) AS f(item, outbox_id, sequence_id, created_at);
    RETURN;
  END IF;

  -- Return the numbers that repetitions in the batch and known keys did not need. This transaction
  -- still has the rows locked.
  INSERT INTO {cell}.participant_outbox_sequences AS s (participant_id, next_sequence_id)
  SELECT l.participant_id, 1 + count(*)
  FROM unnest($2 COLLATE "C", wants) WITH ORDINALITY AS a(participant_id, wants, item)
  JOIN unnest(lockers COLLATE "C") AS l(participant_id) ON l.participant_id = a.participant_id
  LEFT JOIN unnest(fresh) AS f(item) ON f.item = a.item
  WHERE a.wants AND f.item IS NULL
  GROUP BY l.participant_id
  ON CONFLICT ON CONSTRAINT participant_outbox_sequences_pk
  DO UPDATE SET next_sequence_id = s.next_sequence_id - EXCLUDED.next_sequence_id + 1;
  -- A new participant of which nothing was accepted gets no row.
  DELETE FROM {cell}.participant_outbox_sequences s
  WHERE s.participant_id = ANY (lockers) AND s.next_sequence_id = 1;

  -- Repetitions, within the batch, of an item that was not accepted. All other items are answered
  -- from what is known.
  undecided := ARRAY(
    SELECT a.item::integer
    FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", faults) WITH ORDINALITY
      AS a(instruction_id, participant_id, idempotency_key, fault, item)
    JOIN unnest(lockers) AS l(participant_id) ON l.participant_id = a.participant_id
    LEFT JOIN unnest(fresh) AS f(item) ON f.item = a.item
    LEFT JOIN LATERAL (
      SELECT true AS known
      FROM (
        SELECT k.idempotency_key, k.participant_id FROM {cell}.payment_outbox_keys k
        WHERE k.instruction_id = a.instruction_id OFFSET 0) k
      WHERE k.idempotency_key = a.idempotency_key OR k.participant_id = a.participant_id
        AND NOT settings.allow_second_key
      LIMIT 1) k ON true
    WHERE a.fault IS NULL AND f.item IS NULL AND k.known IS NULL
    ORDER BY a.item);

  -- As in enqueue_payment_outbox, an answer about rows of others waits until they are on the
  -- standby too.
  IF fresh IS NULL THEN
    PERFORM pg_logical_emit_message(true, 'railhead', 'replayed');
  END IF;
  RETURN QUERY
  SELECT a.item::integer,
    CASE WHEN v.code IS NULL THEN coalesce(f.outbox_id, k.outbox_id) END,
    CASE WHEN v.code IS NULL THEN coalesce(f.sequence_id, k.sequence_id) END,
    CASE WHEN v.code IS NULL THEN coalesce(f.created_at, k.created_at) END,
    CASE WHEN f.item IS NOT NULL THEN 'PENDING' WHEN v.code IS NULL THEN {cell}.payment_outbox_state(k.outbox_id) END,
    CASE WHEN v.code IS NULL THEN f.item IS NULL END,
    v.code,
    CASE v.code
      WHEN 'RH001' THEN 'this instruction_id and idempotency_key were first used with other content'
      WHEN 'RH007' THEN 'this instruction_id is already enqueued under another idempotency_key'
      WHEN 'RH015' THEN 'another transaction enqueues for this participant'
      WHEN a.fault ->> 'code' THEN a.fault ->> 'message'
    END,
    CASE v.code
      WHEN 'RH001'
        THEN 'Repeat a call with exactly the content of the first one. A different payment needs its own '
          'instruction_id.'
      WHEN 'RH007'
        THEN 'A retry repeats the first idempotency_key. A fresh key per retry is how a payment is made twice.'
      WHEN 'RH015' THEN 'This call stored nothing of it. Enqueue it by a call that waits.'
      WHEN a.fault ->> 'code' THEN a.fault ->> 'hint'
    END,
    CASE WHEN v.code IS NULL AND f.item IS NULL
      THEN {cell}.payment_outbox_differs(k.outbox_id, a.not_before, a.expires_at, CASE WHEN $8 IS NULL THEN 1
        ELSE a.priority END, coalesce(a.send_once, false)) END,
    CASE v.code WHEN 'RH001' THEN 'idempotency_key' WHEN 'RH007' THEN 'idempotency_key' WHEN 'RH015'
      THEN 'participant_id'
      WHEN a.fault ->> 'code' THEN a.fault ->> 'field' END,
    CASE v.code WHEN 'RH001' THEN 'SAME_CONTENT' WHEN 'RH007' THEN 'ONE_KEY' WHEN 'RH015' THEN 'BUSY'
      WHEN a.fault ->> 'code' THEN a.fault ->> 'rule' END,
    CASE v.code
      WHEN 'RH001' THEN CASE WHEN k.participant_id = a.participant_id
        THEN format('The first instruction is outbox_id %s, sequence_id %s.', k.outbox_id, k.sequence_id)
        ELSE 'The first instruction belongs to another participant.' END
      WHEN 'RH007' THEN format('The first instruction is outbox_id %s.', o.outbox_id)
      WHEN a.fault ->> 'code' THEN a.fault ->> 'detail' END
  FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", $6, $7, $8, $10, prints, faults) WITH ORDINALITY
    AS a(instruction_id, participant_id, idempotency_key, not_before, expires_at, priority, send_once, print, fault,
      item)
  LEFT JOIN unnest(lockers COLLATE "C") AS l(participant_id) ON l.participant_id = a.participant_id
  LEFT JOIN unnest(fresh, fresh_ids, fresh_nos, fresh_ats) AS f(item, outbox_id, sequence_id, created_at)
    ON f.item = a.item
  LEFT JOIN LATERAL (
    SELECT k.outbox_id, k.sequence_id, k.created_at, k.participant_id, k.fingerprint FROM {cell}.payment_outbox_keys k
    WHERE f.item IS NULL AND k.instruction_id = a.instruction_id AND k.idempotency_key = a.idempotency_key
    LIMIT 1) k ON true
  LEFT JOIN LATERAL (
    SELECT o.outbox_id
    FROM (
      SELECT o.outbox_id, o.participant_id FROM {cell}.payment_outbox_keys o
      WHERE o.instruction_id = a.instruction_id OFFSET 0) o
    WHERE f.item IS NULL AND k.outbox_id IS NULL AND o.participant_id = a.participant_id
      AND NOT settings.allow_second_key
    LIMIT 1) o ON true
  CROSS JOIN LATERAL (
    SELECT CASE
      WHEN f.item IS NOT NULL THEN NULL
      WHEN k.outbox_id IS NOT NULL AND k.fingerprint IS DISTINCT FROM a.print THEN 'RH001'
      WHEN k.outbox_id IS NOT NULL THEN NULL
      WHEN a.fault ->> 'code' <> 'RH014' THEN a.fault ->> 'code'
      WHEN l.participant_id IS NULL THEN 'RH015'
      WHEN o.outbox_id IS NOT NULL THEN 'RH007'
      ELSE a.fault ->> 'code'
    END AS code) v
  LEFT JOIN unnest(undecided) AS u(item) ON u.item = a.item
  WHERE u.item IS NULL
  ORDER BY a.item;
  FOR one IN
    SELECT a.*
    FROM unnest($1 COLLATE "C", $2 COLLATE "C", $3 COLLATE "C", $4 COLLATE "C", $5, $6, $7, $8, $9, $10) WITH ORDINALITY
      AS a(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, expires_at, priority,
        headers, send_once, item)
    JOIN unnest(undecided) AS u(item) ON u.item = a.item
    ORDER BY a.item
  LOOP
    item := one.item;
    SELECT NULL, NULL, NULL, NULL, NULL, NULL INTO error_code, error_message, error_hint, error_field, error_rule,
      error_detail;
    BEGIN
      SELECT e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.differs
      INTO STRICT outbox_id, sequence_id, created_at, state, replayed, differs
      FROM {cell}.enqueue_payment_outbox(one.instruction_id, one.participant_id, one.idempotency_key, one.rail_type,
        one.payload, one.not_before,
        one.expires_at, CASE WHEN $8 IS NULL THEN 1 ELSE one.priority END, CASE WHEN $9 IS NULL THEN '{}'
          ELSE one.headers END, one.send_once) e;
    EXCEPTION WHEN OTHERS THEN
      IF SQLSTATE NOT LIKE 'RH%' THEN
        RAISE;
      END IF;
      GET STACKED DIAGNOSTICS error_code = RETURNED_SQLSTATE, error_message = MESSAGE_TEXT,
        error_hint = PG_EXCEPTION_HINT, error_field = COLUMN_NAME, error_rule = CONSTRAINT_NAME,
        error_detail = PG_EXCEPTION_DETAIL;
      SELECT NULL, NULL, NULL, NULL, NULL, NULL INTO outbox_id, sequence_id, created_at, state, replayed, differs;
    END;
    RETURN NEXT;
  END LOOP;
  IF NOT waits THEN
    PERFORM set_config('lock_timeout', patience, true);
  END IF;
END
$$;
-- end of enqueue_payment_outbox_arrays

-- function outbox_batch_item
CREATE OR REPLACE FUNCTION {cell}.outbox_batch_item(item integer, value jsonb) RETURNS {cell}.outbox_batch_item
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
SET timezone = 'UTC'
SET datestyle = 'ISO, MDY'
AS $$
DECLARE
  i       {cell}.outbox_batch_item;
  unknown text;
  moment  CONSTANT text COLLATE "C" := '^[0-9]{4}-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})$';
  field   text := 'not_before';
BEGIN
  i.item := outbox_batch_item.item;
  i.error_code := 'RH002';
  i.error_hint := 'See docs/ingest.md for the form of an instruction.';
  IF jsonb_typeof(value) IS DISTINCT FROM 'object' THEN
    i.error_field := 'items';
    i.error_rule := 'OBJECT';
    i.error_message := 'an item must be a JSON object';
    RETURN i;
  END IF;
  SELECT k INTO unknown FROM jsonb_object_keys(value) k
  WHERE k NOT IN ('instruction_id', 'participant_id', 'idempotency_key', 'rail_type', 'payload',
    'not_before', 'expires_at', 'priority', 'headers', 'send_once')
  LIMIT 1;
  IF FOUND THEN
    i.error_field := left(unknown, 64);
    i.error_rule := 'UNKNOWN_FIELD';
    i.error_message := format('unknown field "%s"', left(unknown, 64));
    RETURN i;
  END IF;
  i.instruction_id := value ->> 'instruction_id';
  i.participant_id := value ->> 'participant_id';
  i.idempotency_key := value ->> 'idempotency_key';
  i.rail_type := value ->> 'rail_type';
  i.payload := value -> 'payload';
  i.headers := CASE WHEN jsonb_typeof(value -> 'headers') IS DISTINCT FROM 'null'
    THEN coalesce(value -> 'headers', '{}') ELSE '{}' END;
  i.send_once := false;
  IF jsonb_typeof(value -> 'send_once') IN ('boolean', 'null') THEN
    i.send_once := coalesce((value ->> 'send_once')::boolean, false);
  ELSIF value ? 'send_once' THEN
    i.error_field := 'send_once';
    i.error_rule := 'FORM';
    i.error_message := 'send_once must be true or false';
    RETURN i;
  END IF;
  i.priority := 1;
  IF value ? 'priority' THEN
    IF value ->> 'priority' !~ '^[012]$' THEN
      i.error_field := 'priority';
      i.error_rule := 'RANGE';
      i.error_message := 'priority must be 0 (urgent), 1 (normal) or 2 (bulk)';
      RETURN i;
    END IF;
    i.priority := value ->> 'priority';
  END IF;
  IF value ->> 'not_before' IS NOT NULL OR value ->> 'expires_at' IS NOT NULL THEN
    BEGIN
      IF value ->> 'not_before' !~ moment THEN
        RAISE invalid_datetime_format;
      END IF;
      i.not_before := value ->> 'not_before';
      field := 'expires_at';
      IF value ->> 'expires_at' !~ moment THEN
        RAISE invalid_datetime_format;
      END IF;
      i.expires_at := value ->> 'expires_at';
    EXCEPTION WHEN data_exception THEN
      i.error_field := field;
      i.error_rule := 'MOMENT';
      i.error_message := format('%s must be a timestamp with its zone such as 2026-11-21T09:00:00Z', field);
      i.error_hint := 'Write date, T, time with seconds, and Z or an offset such as +01:00: no blank, and no word '
        'such as "tomorrow".';
      RETURN i;
    END;
  END IF;
  i.error_code := NULL;
  i.error_hint := NULL;
  RETURN i;
END
$$;
-- end of outbox_batch_item

-- function read_outbox_batch
CREATE OR REPLACE FUNCTION {cell}.read_outbox_batch(items jsonb) RETURNS {cell}.outbox_batch_item[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  batch {cell}.outbox_batch_item[];
BEGIN
  SELECT ARRAY(
    SELECT CASE
      WHEN jsonb_typeof(e.value) <> 'object' THEN {cell}.outbox_batch_item(e.n::integer, e.value)
      WHEN e.value - ARRAY['instruction_id', 'participant_id', 'idempotency_key', 'rail_type', 'payload',
          'not_before', 'expires_at', 'priority', 'headers', 'send_once'] = '{}'
        AND (i.not_before IS NULL) = (m.not_before IS NULL) AND (i.expires_at IS NULL) = (m.expires_at IS NULL)
          AND i.priority IS NOT NULL
        AND i.send_once IS NOT NULL
      THEN ROW(e.n, i.instruction_id, i.participant_id, i.idempotency_key, i.rail_type, i.payload, m.not_before,
        m.expires_at,
        i.priority, i.headers, i.send_once, NULL, NULL, NULL, NULL, NULL)::{cell}.outbox_batch_item
      ELSE {cell}.outbox_batch_item(e.n::integer, e.value)
    END
    FROM jsonb_array_elements(items) WITH ORDINALITY AS e(value, n)
    CROSS JOIN LATERAL (
      SELECT e.value ->> 'instruction_id' AS instruction_id, e.value ->> 'participant_id' AS participant_id,
        e.value ->> 'idempotency_key' AS idempotency_key, e.value ->> 'rail_type' AS rail_type,
          e.value -> 'payload' AS payload,
        e.value ->> 'not_before' AS not_before, e.value ->> 'expires_at' AS expires_at,
        CASE WHEN NOT e.value ? 'priority' THEN 1 WHEN e.value ->> 'priority' IN ('0', '1', '2')
          THEN (e.value ->> 'priority')::integer END AS priority,
        coalesce(nullif(e.value -> 'headers', 'null'), '{}') AS headers,
        CASE coalesce(e.value -> 'send_once', 'null') WHEN 'true' THEN true WHEN 'false' THEN false WHEN 'null'
          THEN false END AS send_once
      OFFSET 0) i
    CROSS JOIN LATERAL (
      SELECT CASE WHEN i.not_before ~ p.moment THEN i.not_before::timestamptz END AS not_before,
        CASE WHEN i.expires_at ~ p.moment THEN i.expires_at::timestamptz END AS expires_at
      FROM (SELECT '^2[0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)'
        'T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])$' AS moment) p
      OFFSET 0) m)
  INTO batch;
  RETURN batch;
END
$$;
-- end of read_outbox_batch

-- function enqueue_payment_outbox_batch
CREATE OR REPLACE FUNCTION {cell}.enqueue_payment_outbox_batch(items jsonb)
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  replayed boolean, error_code text, error_message text, error_hint text, differs text[], error_field text,
    error_rule text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_nestloop = off
SET jit = off
AS $$
DECLARE
  n_max    CONSTANT integer := (SELECT s.batch_items_max FROM {cell}.payment_outbox_settings s WHERE s.singleton);
  batch    {cell}.outbox_batch_item[];
  readable record;  -- the items that could be parsed, as arrays, with their positions
BEGIN
  IF jsonb_typeof(items) IS DISTINCT FROM 'array' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'items must be a JSON array of instructions';
  END IF;
  IF jsonb_array_length(items) > n_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005',
      MESSAGE = format('a batch holds %s items, more than %s', jsonb_array_length(items), n_max),
      HINT = 'Send it in parts.';
  END IF;
  batch := {cell}.read_outbox_batch(items);
  SELECT array_agg(b.item) AS item, array_agg(b.instruction_id) AS instruction_id,
    array_agg(b.participant_id) AS participant_id, array_agg(b.idempotency_key) AS idempotency_key,
    array_agg(b.rail_type) AS rail_type, array_agg(b.payload) AS payload, array_agg(b.not_before) AS not_before,
    array_agg(b.expires_at) AS expires_at, array_agg(b.priority) AS priority, array_agg(b.headers) AS headers,
    array_agg(b.send_once) AS send_once
  INTO readable
  FROM (SELECT b.* FROM unnest(batch) b WHERE b.error_code IS NULL ORDER BY b.item) b;
  RETURN QUERY
  SELECT b.item, e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, coalesce(e.error_code, b.error_code),
    coalesce(e.error_message, b.error_message), coalesce(e.error_hint, b.error_hint), e.differs,
    coalesce(e.error_field, b.error_field), coalesce(e.error_rule, b.error_rule)
  FROM unnest(batch) b
  LEFT JOIN unnest(readable.item) WITH ORDINALITY AS r(item, nth) ON r.item = b.item
  LEFT JOIN {cell}.enqueue_payment_outbox_arrays(
    coalesce(readable.instruction_id, '{}'), coalesce(readable.participant_id, '{}'),
      coalesce(readable.idempotency_key, '{}'),
    coalesce(readable.rail_type, '{}'), coalesce(readable.payload, '{}'), readable.not_before, readable.expires_at,
    readable.priority, readable.headers, readable.send_once, true) e ON e.item = r.nth
  ORDER BY b.item;
END
$$;
-- end of enqueue_payment_outbox_batch

-- function auto_pause_rail
CREATE OR REPLACE FUNCTION {cell}.auto_pause_rail(rail_type text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  UPDATE {cell}.payment_rails r
  SET paused = true, auto_paused = true, paused_by = session_user, paused_at = clock_timestamp(),
    pause_reason = left(auto_pause_rail.reason, 500), updated_at = clock_timestamp()
  WHERE r.rail_type = auto_pause_rail.rail_type AND r.rail_type <> '*' AND NOT r.paused;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  INSERT INTO {cell}.payment_operator_log (act, subject, reason)
  VALUES ('PAUSE_RAIL', auto_pause_rail.rail_type, left(auto_pause_rail.reason, 500));
  RETURN true;
END
$$;
-- end of auto_pause_rail

-- function apply_rail_profile
CREATE OR REPLACE FUNCTION {cell}.apply_rail_profile(rail_type text, profile jsonb, reason text)
RETURNS TABLE (version integer, changed boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
  PERFORM {cell}.require_reason(apply_rail_profile.reason);
  IF jsonb_typeof(apply_rail_profile.profile) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a profile must be a JSON object';
  END IF;
  LOCK TABLE {cell}.payment_rails IN SHARE ROW EXCLUSIVE MODE;
  SELECT p.version INTO apply_rail_profile.version
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  WHERE r.rail_type = apply_rail_profile.rail_type AND p.profile = apply_rail_profile.profile;
  IF FOUND THEN
    changed := false;
    RETURN NEXT;
    RETURN;
  END IF;
  changed := true;
  SELECT coalesce(max(p.version), 0) + 1 INTO apply_rail_profile.version
  FROM {cell}.payment_rail_profiles p WHERE p.rail_type = apply_rail_profile.rail_type;
  INSERT INTO {cell}.payment_rail_profiles (rail_type, version, profile, reason)
  VALUES (apply_rail_profile.rail_type, apply_rail_profile.version, apply_rail_profile.profile,
    apply_rail_profile.reason);
  INSERT INTO {cell}.payment_rails AS r (rail_type, profile_version)
  VALUES (apply_rail_profile.rail_type, apply_rail_profile.version)
  ON CONFLICT ON CONSTRAINT payment_rails_pk
  DO UPDATE SET profile_version = excluded.profile_version, updated_at = clock_timestamp();
  INSERT INTO {cell}.payment_operator_log (act, subject, reason, detail)
  VALUES ('APPLY_PROFILE', apply_rail_profile.rail_type, apply_rail_profile.reason,
    jsonb_build_object('version', apply_rail_profile.version));
  RETURN NEXT;
END
$$;
-- end of apply_rail_profile

-- function server_is_settled
CREATE OR REPLACE FUNCTION {cell}.server_is_settled() RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT NOT EXISTS (SELECT FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL)
      AND EXISTS (
        SELECT FROM {cell}.payment_accepted_timelines t
        WHERE t.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c)
          AND t.timeline = {cell}.server_timeline())
      AND (
        EXISTS (
          SELECT FROM {cell}.outbox_heartbeats h
          WHERE h.vouched AND h.kind <> 'callback' AND h.server_started_at = pg_postmaster_start_time())
        OR EXISTS (
          SELECT FROM {cell}.payment_outbox_suspensions s
          WHERE s.accepted_at <= clock_timestamp() AND s.server_started_at = pg_postmaster_start_time())
        OR NOT EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.kind = 'relayer')));
END
$$;
-- end of server_is_settled

-- function suspend_outbox
CREATE OR REPLACE FUNCTION {cell}.suspend_outbox(worker_id text, cause text, detail text, looked_at timestamptz)
  RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  id uuid;
BEGIN
  IF cause IS NULL OR cause NOT IN ('NEW_SERVER', 'NEW_TIMELINE', 'LOG_WENT_BACK', 'ROWS_MISSING', 'NO_MEMORY') THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = format('%L is not a cause of a suspension', cause);
  END IF;
  -- Only acceptances of this start and this timeline count: others may have the times of another
  -- server's clock.
  IF EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s
      WHERE s.accepted_at > looked_at AND s.accepted_at <= clock_timestamp()
        AND s.server_started_at = pg_postmaster_start_time() AND s.timeline = {cell}.server_timeline())
    OR cause = 'NEW_TIMELINE' AND EXISTS (
      SELECT FROM {cell}.payment_accepted_timelines t
      WHERE t.accepted_at > looked_at AND t.accepted_at <= clock_timestamp() AND t.timeline = {cell}.server_timeline()
        AND t.system_identifier = (SELECT c.system_identifier::text FROM pg_control_system() c))
  THEN
    RETURN NULL;
  END IF;
  INSERT INTO {cell}.payment_outbox_suspensions AS s
    (worker_id, cause, detail, system_identifier, timeline, server_started_at, known_until)
  SELECT suspend_outbox.worker_id, suspend_outbox.cause, left(suspend_outbox.detail, 500), c.system_identifier::text,
    {cell}.server_timeline(), pg_postmaster_start_time(),
    least(clock_timestamp(), coalesce((
      SELECT max(CASE WHEN h.vouched AND h.server_started_at <> pg_postmaster_start_time() THEN h.last_tick_at
        ELSE h.tick_before_start END)
      FROM {cell}.outbox_heartbeats h
      WHERE h.kind <> 'callback'), '-infinity'))
  FROM pg_control_system() c
  ON CONFLICT ((accepted_at IS NULL)) WHERE accepted_at IS NULL DO UPDATE SET
    worker_id = excluded.worker_id, cause = excluded.cause, detail = excluded.detail,
    system_identifier = excluded.system_identifier, timeline = excluded.timeline,
    server_started_at = excluded.server_started_at, known_until = least(s.known_until, excluded.known_until),
    opened_at = excluded.opened_at
  WHERE (s.system_identifier, s.timeline, s.server_started_at)
    IS DISTINCT FROM (excluded.system_identifier, excluded.timeline, excluded.server_started_at)
  RETURNING s.suspension_id INTO id;
  RETURN coalesce(id, (SELECT s.suspension_id FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL));
END
$$;
-- end of suspend_outbox

-- function accept_timeline
CREATE OR REPLACE FUNCTION {cell}.accept_timeline(reason text, since timestamptz DEFAULT NULL)
RETURNS TABLE (system_identifier text, timeline bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET timezone = 'UTC'
AS $$
DECLARE
  suspended {cell}.payment_outbox_suspensions; -- the open one
  shape     CONSTANT text := 'YYYY-MM-DD"T"HH24:MI:SS"Z"';
  what      text; -- what has to be compared
BEGIN
  PERFORM {cell}.require_reason(accept_timeline.reason);
  SELECT s.system_identifier::text INTO accept_timeline.system_identifier FROM pg_control_system() s;
  accept_timeline.timeline := {cell}.server_timeline();
  SELECT s.* INTO suspended FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL FOR UPDATE;
  what := CASE WHEN suspended.known_until > '-infinity' THEN 'was sent since ' || to_char(suspended.known_until, shape)
    ELSE 'was ever sent' END;
  IF suspended.suspension_id IS NULL THEN
    IF since IS NOT NULL AND NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s WHERE date_trunc('second', s.opened_at) = date_trunc('second',
        since))
    THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('no suspension is open, and none was opened at %s', to_char(since, shape)),
        HINT = 'See opened_at of payment_outbox_suspensions. If the server has forgotten it, a relayer finds that out '
          'within seconds.';
    END IF;
    IF EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.kind = 'relayer') AND NOT {cell}.server_is_settled() THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'the server was started or promoted, and no relayer has confirmed since that nothing is missing: '
          'what it may have forgotten is not known yet',
        HINT = 'Start a relayer, or wait until one has compared the server with what it remembers. If lanes are '
          'suspended then, compare with the rails what was sent since known_until of payment_outbox_suspensions, '
          'and repeat this.';
    END IF;
  ELSIF (suspended.system_identifier, suspended.timeline, suspended.server_started_at)
    IS DISTINCT FROM (accept_timeline.system_identifier, accept_timeline.timeline, pg_postmaster_start_time())
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the server was started or promoted after the suspension was opened, and no relayer has checked it '
        'since: it may have forgotten more than you have compared',
      HINT = 'Start a relayer, or wait some seconds until one has checked the server. Then compare with the rails '
        'what was sent since known_until of payment_outbox_suspensions, and repeat this.';
  ELSIF since IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('lanes have been suspended since %s: confirm that you have compared this suspension with the rails', to_char(suspended.opened_at, shape)),
      HINT = format('Compare with the rails what %s, then repeat this with --since %s.', what,
        to_char(suspended.opened_at, shape));
  ELSIF date_trunc('second', suspended.opened_at) <> date_trunc('second', since) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('lanes have been suspended since %s, but you have compared the suspension of %s: the server may have gone back again since, and forgotten what you have resolved',
        to_char(suspended.opened_at, shape), to_char(since, shape)),
      HINT = format('Compare with the rails again what %s, then repeat this with --since %s.', what,
        to_char(suspended.opened_at, shape));
  END IF;
  INSERT INTO {cell}.payment_accepted_timelines (system_identifier, timeline, reason)
  VALUES (accept_timeline.system_identifier, accept_timeline.timeline, accept_timeline.reason)
  ON CONFLICT DO NOTHING;
  UPDATE {cell}.payment_outbox_suspensions s
  SET accepted_at = clock_timestamp(), accepted_by = session_user, reason = accept_timeline.reason
  WHERE s.suspension_id = suspended.suspension_id;
  INSERT INTO {cell}.payment_operator_log (act, subject, reason, detail)
  VALUES ('ACCEPT_TIMELINE', format('%s/%s', accept_timeline.system_identifier, accept_timeline.timeline),
    accept_timeline.reason,
    jsonb_strip_nulls(jsonb_build_object('suspension_id', suspended.suspension_id)));
  RETURN NEXT;
END
$$;
-- end of accept_timeline

-- function timeline_accepted_at
CREATE OR REPLACE FUNCTION {cell}.timeline_accepted_at(system_identifier text, timeline bigint) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT t.accepted_at
  FROM {cell}.payment_accepted_timelines t
  WHERE t.system_identifier = $1 AND t.timeline = $2
$$;
-- end of timeline_accepted_at

-- function latest_suspensions
CREATE OR REPLACE FUNCTION {cell}.latest_suspensions(most integer)
RETURNS TABLE (suspension_id uuid, cause text, detail text, opened_at timestamptz, accepted_at timestamptz,
  known_until timestamptz, doubted_until timestamptz, server_started_at timestamptz, timeline bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT s.suspension_id, s.cause, s.detail, s.opened_at, s.accepted_at,
    CASE WHEN s.known_until > '-infinity' THEN s.known_until ELSE 'epoch' END AS known_until,
    coalesce(s.accepted_at, 'epoch') + g.repeated_within AS doubted_until,
    s.server_started_at, s.timeline
  FROM {cell}.payment_outbox_suspensions s
  CROSS JOIN {cell}.payment_outbox_settings g
  ORDER BY s.suspension_id DESC
  LIMIT $1
$$;
-- end of latest_suspensions

-- function recall_memory
CREATE OR REPLACE FUNCTION {cell}.recall_memory(name text, beats bigint, beaten_at timestamptz,
  outbox_id uuid, attempt_no integer, claimed_at timestamptz, own_name text)
RETURNS TABLE (beats_missing boolean, claim_missing boolean, vouched boolean, known boolean, outdated boolean,
  awaited text[], awaited_ms bigint, patience_ms bigint)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH beat AS MATERIALIZED (
    SELECT h.name, h.kind, h.status, h.last_tick_at, h.stale_after_ms,
      h.server_started_at = pg_postmaster_start_time() AS here,
      h.vouched AND h.server_started_at = pg_postmaster_start_time() AS vouched,
      h.kind = 'relayer' AND h.vouched AND h.server_started_at <> pg_postmaster_start_time() AS vouched_before,
      CASE WHEN h.server_started_at = pg_postmaster_start_time() THEN h.tick_before_start
        ELSE h.last_tick_at END AS before_start
    FROM {cell}.outbox_heartbeats h
  ),
  awaited AS MATERIALIZED (
    SELECT b.name, b.stale_after_ms
    FROM beat b
    WHERE b.kind = 'relayer' AND b.status <> 'stopped' AND NOT b.here AND b.name <> $7
      AND b.last_tick_at > (SELECT coalesce(max(m.last_tick_at) FILTER (WHERE m.vouched_before), '-infinity')
        FROM beat m) - b.stale_after_ms * interval '1 millisecond'
    ORDER BY b.name
    LIMIT 20
  )
  SELECT
    $1::text IS NOT NULL
      AND NOT EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.name = $1 AND h.beats >= $2::bigint)
      AND ($3::timestamptz > clock_timestamp() - interval '1 day' OR EXISTS (SELECT FROM {cell}.outbox_heartbeats h
        WHERE h.name = $1 AND h.last_tick_at <= $3)) AS beats_missing,
    $4::uuid IS NOT NULL AND ($6::timestamptz > clock_timestamp() - interval '1 day' OR NOT {cell}.left_the_archive($4))
      AND (
      SELECT true FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $4 AND a.attempt_no = $5::integer AND a.claimed_at = $6
      LIMIT 1) IS NULL AS claim_missing,
    EXISTS (SELECT FROM beat b WHERE b.vouched AND b.kind <> 'callback') AS vouched,
    EXISTS (SELECT FROM beat b WHERE b.kind = 'relayer') AS known,
    coalesce((SELECT max(b.before_start) FROM beat b
      WHERE b.kind = 'relayer') > $3::timestamptz + interval '15 minutes', false)
      OR coalesce($3::timestamptz <= clock_timestamp() - interval '1 day', false)
        AND NOT EXISTS (SELECT FROM {cell}.outbox_heartbeats h WHERE h.name = $1) AS outdated,
    ARRAY(SELECT w.name FROM awaited w ORDER BY w.name) AS awaited,
    coalesce((SELECT max(w.stale_after_ms) FROM awaited w), 0) AS awaited_ms,
    (SELECT s.heartbeat_stale_ms::bigint FROM {cell}.payment_outbox_settings s WHERE s.singleton) AS patience_ms
$$;
-- end of recall_memory

-- function outbox_unsettled_send
CREATE OR REPLACE FUNCTION {cell}.outbox_unsettled_send(outbox_id uuid, settled_attempt_no integer) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts answer
      WHERE answer.outbox_id = $1
        AND answer.state IN ('ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN')
        AND answer.answers_attempt_no IS DISTINCT FROM $2
        AND EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts send
          WHERE send.outbox_id = $1 AND send.attempt_no = answer.answers_attempt_no AND send.state = 'DISPATCHING')
        AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts late
          WHERE late.outbox_id = $1 AND late.state = 'LATE_OUTCOME'
            AND late.answers_attempt_no = answer.answers_attempt_no
            AND late.result IN ('REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'REFUSED')))
      OR EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts forgotten
        WHERE forgotten.outbox_id = $1 AND forgotten.state = 'LATE_OUTCOME' AND forgotten.answers_attempt_no IS NULL
          AND (forgotten.result IN ('ACCEPTED', 'UNKNOWN') OR forgotten.claimed_at IS NOT NULL
            AND forgotten.outcome_unknown))
      OR EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts asked
        WHERE asked.outbox_id = $1 AND asked.result = 'IN_PROGRESS' AND asked.attempt_no > coalesce($2, 0)
          AND NOT EXISTS (
            SELECT FROM {cell}.payment_outbox_attempts since
            WHERE since.outbox_id = $1 AND since.state = 'FAILED' AND since.attempt_no > asked.attempt_no)));
END
$$;
-- end of outbox_unsettled_send

-- function put_back_after
CREATE OR REPLACE FUNCTION {cell}.put_back_after(outbox_id uuid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce(l.state::text, 'LATE_OUTCOME')
    FROM (SELECT max(a.attempt_no) AS no FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1) m
    LEFT JOIN LATERAL (
      SELECT a.state
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC
      LIMIT 1) l ON true
    WHERE l.state NOT IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED')
      OR (SELECT p.attempt_count FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1) < m.no);
END
$$;
-- end of put_back_after

-- function refuse_put_back
CREATE OR REPLACE FUNCTION {cell}.refuse_put_back(outbox_id uuid) RETURNS integer
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'RH013',
    MESSAGE = format('outbox_id %s was put back in pending: its last row is %s', outbox_id, (
      SELECT format('%s, row %s', a.state, a.attempt_no)
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = refuse_put_back.outbox_id
      ORDER BY a.state = 'LATE_OUTCOME', a.attempt_no DESC
      LIMIT 1)),
    HINT = 'It is quarantined. Find out who put it back; then close its dead letter, or resolve it if it may have '
      'been paid.';
END
$$;
-- end of refuse_put_back

-- function rail_has_seen
CREATE OR REPLACE FUNCTION {cell}.rail_has_seen(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1
        AND (a.error_code = 'SEEN_BEFORE'
          OR (a.error_code IN ('NEW_ID_NEEDED', 'BUSINESS_REFUSED')
            OR a.result IN ('ACCEPTED', 'EXECUTED', 'REFUSED', 'IN_PROGRESS')) AND NOT EXISTS (
            SELECT FROM {cell}.payment_outbox_attempts since
            WHERE since.outbox_id = $1 AND since.state = 'REPLAYED' AND since.attempt_no > a.attempt_no))));
END
$$;
-- end of rail_has_seen

-- function sends_of
CREATE OR REPLACE FUNCTION {cell}.sends_of(
  outbox_id uuid, OUT attempt_no integer, OUT claimed_at timestamptz, OUT render_version text,
  OUT forgotten boolean, OUT executed boolean, OUT denied boolean) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  -- The rows are looked up in lists instead of one by one, because an instruction may have
  -- thousands.
  RETURN QUERY
  WITH a AS MATERIALIZED (
    SELECT t.* FROM {cell}.payment_outbox_attempts t WHERE t.outbox_id = $1
  ),
  claim AS MATERIALIZED (
    SELECT s.attempt_no, s.claimed_at, s.render_version,
      (s.attempt_no IN (
        SELECT n.answers_attempt_no FROM a n
          WHERE n.result IN ('REFUSED_LATER', 'REFUSED_RAIL', 'NOT_SENT', 'CHECK_FAILED', 'TAMPERED', 'WINDOW_CLOSED', 'RENDER_CHANGED') AND n.state <> 'LATE_OUTCOME')) IS TRUE AS not_left,
      (s.attempt_no IN (SELECT n.answers_attempt_no FROM a n
        WHERE n.result IN ('REFUSED_LATER', 'REFUSED_RAIL', 'NOT_SENT', 'CHECK_FAILED', 'TAMPERED', 'WINDOW_CLOSED', 'RENDER_CHANGED'))) IS TRUE AS denied,
      (s.attempt_no IN (SELECT r.answers_attempt_no FROM a r WHERE r.result = 'REFUSED')) IS TRUE AS refused
    FROM a s
    WHERE s.state = 'DISPATCHING'
  )
  SELECT c.attempt_no, c.claimed_at, c.render_version, false, false, c.denied AND NOT c.refused
  FROM claim c
  WHERE NOT c.not_left
  UNION ALL
  SELECT f.attempt_no, coalesce(f.claimed_at, CASE WHEN f.result = 'REFUSED' THEN f.created_at END), f.render_version,
    true, f.result = 'EXECUTED', false
  FROM a f
  WHERE f.state = 'LATE_OUTCOME' AND f.answers_attempt_no IS NULL
    AND (f.result IN ('EXECUTED', 'ACCEPTED', 'REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'UNKNOWN')
      OR f.claimed_at IS NOT NULL AND f.outcome_unknown AND f.result IN ('REFUSED', 'IN_PROGRESS', 'NOT_FOUND', 'UNAVAILABLE')
      OR f.result = 'REFUSED'
        AND f.attempt_no < coalesce((SELECT min(c.attempt_no) FROM claim c WHERE NOT c.denied OR c.refused),
        2147483647));
END
$$;
-- end of sends_of

-- function forgotten_since
CREATE OR REPLACE FUNCTION {cell}.forgotten_since(outbox_id uuid) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT min(s.known_until)
    FROM {cell}.payment_outbox_keys k
    CROSS JOIN {cell}.payment_outbox_settings g
    JOIN {cell}.payment_outbox_suspensions s
      ON s.accepted_at IS NULL OR k.created_at < s.accepted_at + g.repeated_within
    WHERE k.outbox_id = $1);
END
$$;
-- end of forgotten_since

-- function key_since
CREATE OR REPLACE FUNCTION {cell}.key_since(outbox_id uuid, known_for interval, first_sent_at timestamptz)
  RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  since timestamptz := $3;
  gap   record;
BEGIN
  FOR gap IN
    SELECT greatest(s.known_until, 'epoch') AS known_until, s.opened_at
    FROM {cell}.payment_outbox_keys k
    CROSS JOIN {cell}.payment_outbox_settings g
    JOIN {cell}.payment_outbox_suspensions s
      ON s.accepted_at IS NULL OR k.created_at < s.accepted_at + g.repeated_within
    WHERE k.outbox_id = $1
    ORDER BY s.opened_at DESC
  LOOP
    IF since < gap.opened_at + $2 THEN
      -- A time in the future comes from a clock that was set back. It is not an age, and counts as
      -- later than all others.
      since := CASE WHEN gap.known_until > clock_timestamp() THEN gap.known_until
        ELSE least(since, gap.known_until) END;
      EXIT WHEN since > clock_timestamp();
    END IF;
  END LOOP;
  RETURN since;
END
$$;
-- end of key_since

-- function forgotten_calls_until
CREATE OR REPLACE FUNCTION {cell}.forgotten_calls_until() RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT max(coalesce(s.accepted_at + g.repeated_within, 'infinity'))
  FROM {cell}.payment_outbox_suspensions s
  CROSS JOIN {cell}.payment_outbox_settings g
$$;
-- end of forgotten_calls_until

-- function repeats_forgotten_call
CREATE OR REPLACE FUNCTION {cell}.repeats_forgotten_call(enqueued_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT max(s.opened_at)
  FROM {cell}.payment_outbox_suspensions s
  CROSS JOIN {cell}.payment_outbox_settings g
  WHERE $1 >= least(s.known_until, s.opened_at) AND (s.accepted_at IS NULL OR $1 < s.accepted_at + g.repeated_within)
$$;
-- end of repeats_forgotten_call

-- function profile_at
CREATE OR REPLACE FUNCTION {cell}.profile_at(rail_type text, at timestamptz) RETURNS integer
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce(max(p.version), 1)
  FROM {cell}.payment_rail_profiles p
  WHERE p.rail_type = $1 AND p.applied_at <= $2
$$;
-- end of profile_at

-- function key_rules
CREATE OR REPLACE FUNCTION {cell}.key_rules(rail_type text, from_version integer, before_version integer,
  unknown boolean) RETURNS jsonb
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT jsonb_agg(DISTINCT jsonb_build_object(
      'acceptance', coalesce(p.profile ->> 'acceptance', 'FINAL'),
      'resend_on_unknown', coalesce(p.profile ->> 'resend_on_unknown', 'NEVER'),
      'key_window', coalesce(p.profile ->> 'key_window', '0s'),
      'answer_covers_key', coalesce((p.profile ->> 'answer_covers_key')::boolean, false)))
    FROM (
      SELECT p.profile FROM {cell}.payment_rail_profiles p
      WHERE p.rail_type = $1 AND p.version >= $2 AND p.version < $3
      UNION ALL
      SELECT '{"acceptance": "PROVISIONAL"}' WHERE $4) p);
END
$$;
-- end of key_rules

-- function rules_while_suspended
CREATE OR REPLACE FUNCTION {cell}.rules_while_suspended(OUT rail_type text, OUT rules jsonb) RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT r.rail_type, {cell}.key_rules(r.rail_type, {cell}.profile_at(r.rail_type, open.since), r.profile_version,
    false)
  FROM {cell}.payment_rails r
  CROSS JOIN (
    SELECT min(s.known_until) AS since FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL) open
  WHERE r.profile_version IS NOT NULL AND open.since IS NOT NULL
$$;
-- end of rules_while_suspended

-- function rules_of_sends
CREATE OR REPLACE FUNCTION {cell}.rules_of_sends(outbox_id uuid) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  rail     text;
  in_force integer;
  oldest   integer;
  unknown  boolean; -- whether some version is unknown to this database
  since    timestamptz := {cell}.forgotten_since($1);
BEGIN
  SELECT a.rail_type, r.profile_version INTO rail, in_force
  FROM {cell}.payment_outbox_attempts a
  JOIN {cell}.payment_rails r ON r.rail_type = a.rail_type
  WHERE a.outbox_id = $1
  ORDER BY a.attempt_no LIMIT 1;
  IF NOT FOUND THEN -- the calling statement claims it for the first time
    SELECT p.rail_type, r.profile_version INTO rail, in_force
    FROM {cell}.payment_outbox_pending p
    JOIN {cell}.payment_rails r ON r.rail_type = p.rail_type
    WHERE p.outbox_id = $1;
  END IF;
  -- Most instructions were sent under one version only; this query, which stops at the first row,
  -- detects them.
  PERFORM FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.profile_version IS DISTINCT FROM in_force
    AND (a.state = 'DISPATCHING' OR a.state = 'LATE_OUTCOME') LIMIT 1;
  IF NOT FOUND AND since IS NULL THEN
    PERFORM FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state = 'LATE_OUTCOME' AND a.answers_attempt_no IS NULL LIMIT 1;
    IF NOT FOUND THEN
      RETURN NULL;
    END IF;
  END IF;
  -- A row of an inquiry that reports a forgotten send has the version of the inquiry.
  SELECT min(v.version), coalesce(bool_or(v.version > in_force OR v.forgotten AND EXISTS (
      SELECT FROM {cell}.payment_rail_profiles p
      WHERE p.rail_type = rail AND p.version = v.version AND p.applied_at > v.claimed_at)), false)
  INTO oldest, unknown
  FROM (
    SELECT s.forgotten AND NOT by_first AS forgotten, a.claimed_at,
      CASE WHEN by_first THEN 1 ELSE coalesce(nullif(a.profile_version, 0), 1) END AS version
    FROM {cell}.sends_of($1) s
    JOIN {cell}.payment_outbox_attempts a ON a.outbox_id = $1 AND a.attempt_no = s.attempt_no
    CROSS JOIN LATERAL (
      SELECT s.forgotten AND (a.claimed_at IS NULL OR a.result IN ('REFUSED', 'IN_PROGRESS', 'NOT_FOUND', 'UNAVAILABLE')
        OR coalesce(a.profile_version, 0) = 0) AS by_first) b
    WHERE NOT s.denied) v;
  IF since IS NOT NULL THEN
    oldest := least(oldest, {cell}.profile_at(rail, since));
  END IF;
  IF oldest >= in_force AND NOT unknown THEN
    RETURN NULL;
  END IF;
  RETURN {cell}.key_rules(rail, oldest, in_force, unknown);
END
$$;
-- end of rules_of_sends

-- function acceptance_of_sends
CREATE OR REPLACE FUNCTION {cell}.acceptance_of_sends(outbox_id uuid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT CASE
      WHEN rules.rules @> '[{"acceptance": "PROVISIONAL"}]' THEN 'PROVISIONAL'
      WHEN rules.rules @> '[{"acceptance": "BY_ANSWER"}]' THEN 'BY_ANSWER'
      ELSE 'FINAL' END
    FROM (SELECT {cell}.rules_of_sends($1) AS rules) rules);
END
$$;
-- end of acceptance_of_sends

-- function is_only_taken
CREATE OR REPLACE FUNCTION {cell}.is_only_taken(acceptance text, result text) RETURNS boolean
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT CASE $1
    WHEN 'PROVISIONAL' THEN true
    WHEN 'BY_ANSWER' THEN $2 IS NOT DISTINCT FROM 'ACCEPTED'
    ELSE false END
$$;
-- end of is_only_taken

-- function rests_on_acceptance
CREATE OR REPLACE FUNCTION {cell}.rests_on_acceptance(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT last.state = 'DISPATCHED' AND last.error_code IS DISTINCT FROM 'RESOLVED'
        AND (last.result = 'ACCEPTED' OR said.late_own) AND NOT said.proven
        AND {cell}.is_only_taken({cell}.acceptance_of_sends($1), CASE WHEN said.late_own THEN 'ACCEPTED'
          ELSE last.result END)
      FROM {cell}.payment_outbox_attempts last
      CROSS JOIN (
        SELECT coalesce(bool_or(e.proves), false) AS proven,
          coalesce(bool_or(e.state = 'LATE_OUTCOME' AND NOT e.proves), false) AS late_own
        FROM (
          SELECT a.state, CASE WHEN a.answers_attempt_no IS NULL THEN a.claimed_at IS NULL
            ELSE claim.state = 'INQUIRING' END AS proves
          FROM {cell}.payment_outbox_attempts a
          LEFT JOIN {cell}.payment_outbox_attempts claim ON claim.outbox_id = $1
            AND claim.attempt_no = a.answers_attempt_no
          WHERE a.outbox_id = $1 AND a.result = 'EXECUTED' AND a.error_code IS DISTINCT FROM 'RESOLVED') e) said
      WHERE last.outbox_id = $1 AND last.state <> 'LATE_OUTCOME'
      ORDER BY last.attempt_no DESC
      LIMIT 1), false));
END
$$;
-- end of rests_on_acceptance

-- function forgotten_sends
CREATE OR REPLACE FUNCTION {cell}.forgotten_sends(
  outbox_id uuid, OUT n bigint, OUT first_at timestamptz, OUT last_at timestamptz) RETURNS record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  SELECT count(*), min(s.claimed_at), max(s.claimed_at)
  INTO n, first_at, last_at
  FROM {cell}.sends_of($1) s
  WHERE s.forgotten AND s.claimed_at IS NOT NULL;
END
$$;
-- end of forgotten_sends

-- function known_sends
CREATE OR REPLACE FUNCTION {cell}.known_sends(
  outbox_id uuid, OUT n bigint, OUT first_at timestamptz, OUT last_at timestamptz, OUT render_version text)
    RETURNS record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  SELECT count(*) FILTER (WHERE NOT s.forgotten), min(s.claimed_at) FILTER (WHERE NOT s.forgotten),
    max(s.claimed_at) FILTER (WHERE NOT s.forgotten),
    (array_agg(s.render_version ORDER BY s.claimed_at) FILTER (WHERE s.render_version IS NOT NULL))[1]
  INTO n, first_at, last_at, render_version
  FROM {cell}.sends_of($1) s;
END
$$;
-- end of known_sends

-- function operator_asked
CREATE OR REPLACE FUNCTION {cell}.operator_asked(outbox_id uuid, attempt_no integer) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT a.state = 'UNKNOWN' AND a.error_code = 'ASKED' AND a.answers_attempt_no IS NULL
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1 AND a.attempt_no < $2 AND a.state <> 'LATE_OUTCOME'
      ORDER BY a.attempt_no DESC
      LIMIT 1), false));
END
$$;
-- end of operator_asked

-- function just_replayed
CREATE OR REPLACE FUNCTION {cell}.just_replayed(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT a.state = 'REPLAYED' AND CASE WHEN a.profile_version IS NOT NULL
        THEN a.profile_version = (SELECT r.profile_version FROM {cell}.payment_rails r WHERE r.rail_type = a.rail_type)
        -- Older rows do not record the version.
        ELSE NOT EXISTS (
          SELECT FROM {cell}.payment_rail_profiles p WHERE p.rail_type = a.rail_type
            AND p.applied_at > a.created_at) END
        -- If the answer to this claim proves that nothing left, the old server may still have sent
        -- the instruction again.
        AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts c
          WHERE c.outbox_id = $1 AND c.state = 'DISPATCHING' AND c.attempt_no > a.attempt_no
            AND c.claimed_at < (SELECT {cell}.may_be_forgotten_until($1)))
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1 AND a.state NOT IN ('DISPATCHING', 'INQUIRING')
        AND coalesce(a.result, '') <> ALL (ARRAY['REFUSED_LATER', 'REFUSED_RAIL', 'NOT_SENT', 'CHECK_FAILED', 'TAMPERED', 'WINDOW_CLOSED', 'RENDER_CHANGED', 'REFUSED_FINAL', 'REFUSED'])
      ORDER BY a.attempt_no DESC
      LIMIT 1), false));
END
$$;
-- end of just_replayed

-- function last_rail_reference
CREATE OR REPLACE FUNCTION {cell}.last_rail_reference(outbox_id uuid) RETURNS text
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT a.rail_reference
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.rail_reference IS NOT NULL AND a.result IN ('ACCEPTED', 'IN_PROGRESS')
    ORDER BY a.attempt_no DESC
    LIMIT 1);
END
$$;
-- end of last_rail_reference

-- function rail_busy_since
CREATE OR REPLACE FUNCTION {cell}.rail_busy_since(outbox_id uuid) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT a.completed_at
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state = 'RETRYABLE' AND a.result = 'REFUSED_LATER'
      AND a.attempt_no > coalesce((
        SELECT o.attempt_no
        FROM {cell}.payment_outbox_attempts o
        WHERE o.outbox_id = $1 AND o.state NOT IN ('DISPATCHING', 'INQUIRING', 'LATE_OUTCOME')
          AND NOT (o.state = 'RETRYABLE' AND coalesce(o.result, '') IN ('REFUSED_LATER', 'REFUSED_RAIL', 'NOT_SENT'))
        ORDER BY o.attempt_no DESC
        LIMIT 1), 0)
    ORDER BY a.attempt_no
    LIMIT 1);
END
$$;
-- end of rail_busy_since

-- function rail_refusals
CREATE OR REPLACE FUNCTION {cell}.rail_refusals(outbox_id uuid, next_action text) RETURNS timestamptz[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT ARRAY(
      SELECT a.completed_at
      FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = $1
        AND (a.state = 'RETRYABLE' AND a.result = 'REFUSED_RAIL'
          OR a.state = 'UNKNOWN' AND a.error_code = 'RAIL_REFUSED')
        AND a.attempt_no > coalesce((
          SELECT r.attempt_no
          FROM {cell}.payment_outbox_attempts r
          WHERE r.outbox_id = $1 AND r.state = 'REPLAYED'
          ORDER BY r.attempt_no DESC
          LIMIT 1), 0)
        AND (SELECT c.next_action FROM {cell}.payment_outbox_attempts c WHERE c.outbox_id = $1
          AND c.attempt_no = a.answers_attempt_no) = $2
      ORDER BY a.attempt_no
      LIMIT 100));
END
$$;
-- end of rail_refusals

-- function notify_outcome
CREATE OR REPLACE FUNCTION {cell}.notify_outcome(outbox_id uuid) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT pg_notify('{cell}.payment_outcomes', $1::text)
  WHERE NOT pg_try_advisory_xact_lock_shared(hashtextextended('{cell}.payment_outcomes', 0))
$$;
-- end of notify_outcome

-- function listen_for_outcomes
CREATE OR REPLACE FUNCTION {cell}.listen_for_outcomes() RETURNS boolean
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
AS $$
DECLARE
  key    CONSTANT bigint := hashtextextended('{cell}.payment_outcomes', 0);
  holder integer;
BEGIN
  LISTEN "{cell}.payment_outcomes";
  SELECT l.pid INTO holder FROM pg_locks l
  WHERE l.locktype = 'advisory' AND l.mode = 'ExclusiveLock' AND l.granted AND l.objsubid = 1
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.classid = ((key >> 32) & 4294967295)::oid AND l.objid = (key & 4294967295)::oid;
  IF holder IS NOT NULL THEN
    RETURN holder = pg_backend_pid();
  END IF;
  BEGIN
    -- While this session is queued for the lock, writers do not get it and already notify.
    PERFORM pg_advisory_lock(key);
    RETURN true;
  EXCEPTION WHEN lock_not_available THEN
    RETURN false;
  END;
END
$$;
-- end of listen_for_outcomes

-- function open_dead_letters
CREATE OR REPLACE FUNCTION {cell}.open_dead_letters(outbox_ids uuid[], reasons text[], error_codes text[]) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO {cell}.payment_dead_letters AS d
    (outbox_id, instruction_id, participant_id, rail_type, reason, error_code,
     amount, currency, attempts, first_attempt_at, last_attempt_at, rail_code, error_message)
  SELECT l.outbox_id, coalesce(k.instruction_id, r.instruction_id, l.outbox_id::text),
    coalesce(k.participant_id, r.participant_id, ''), r.rail_type, l.reason, l.error_code,
    CASE WHEN w.payload ->> 'amount' ~ '^[0-9]{1,30}([.][0-9]{1,10})?$' THEN (w.payload ->> 'amount')::numeric END,
    left(w.payload ->> 'currency', 20), c.n, c.first_at, c.last_at, said.rail_code, said.error_message
  FROM unnest($1, $2, $3) AS l(outbox_id, reason, error_code)
  LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = l.outbox_id
  CROSS JOIN LATERAL (
    (SELECT a.instruction_id, a.participant_id, a.rail_type
    FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = l.outbox_id ORDER BY a.attempt_no LIMIT 1)
    UNION ALL
    SELECT p.instruction_id, p.participant_id, p.rail_type FROM {cell}.payment_outbox_pending p
      WHERE p.outbox_id = l.outbox_id
    LIMIT 1) r
  CROSS JOIN LATERAL (
    SELECT coalesce(
      (SELECT a.payload FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = l.outbox_id AND a.payload IS NOT NULL ORDER BY a.attempt_no DESC LIMIT 1),
      (SELECT p.payload FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = l.outbox_id),
      (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = l.outbox_id)) AS payload) w
  CROSS JOIN LATERAL (
    SELECT count(*) AS n, min(a.claimed_at) AS first_at, max(a.claimed_at) AS last_at
    FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = l.outbox_id AND a.state IN ('DISPATCHING', 'INQUIRING')) c
  LEFT JOIN LATERAL (
    SELECT a.rail_code, a.error_message
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = l.outbox_id AND (a.rail_code IS NOT NULL OR a.error_message IS NOT NULL)
      AND a.result IS NOT NULL AND a.error_code IS DISTINCT FROM 'RESOLVED'
    ORDER BY a.attempt_no DESC LIMIT 1) said ON true
  ORDER BY l.outbox_id
  ON CONFLICT ON CONSTRAINT payment_dead_letters_pk DO UPDATE SET
    reason = CASE
      WHEN d.status NOT IN ('manual_replay', 'resolved')
        AND (d.reason = 'CONFLICT' OR d.reason = 'TAMPERED' AND excluded.reason NOT IN ('FAILED', 'EXPIRED')
          AND excluded.reason <> 'CONFLICT')
        THEN d.reason
      ELSE excluded.reason END,
    error_code = excluded.error_code,
    amount = coalesce(excluded.amount, d.amount),
    currency = coalesce(excluded.currency, d.currency),
    attempts = greatest(excluded.attempts, d.attempts),
    first_attempt_at = least(excluded.first_attempt_at, d.first_attempt_at),
    last_attempt_at = greatest(excluded.last_attempt_at, d.last_attempt_at),
    rail_code = excluded.rail_code,
    error_message = excluded.error_message,
    status = 'pending',
    opened_at = CASE WHEN d.status IN ('manual_replay', 'resolved') THEN excluded.opened_at ELSE d.opened_at END,
    updated_at = excluded.updated_at;
  IF 'CONFLICT' = ANY ($2) THEN
    -- The contradicting row is the last one, because its writer opens the letter.
    INSERT INTO {cell}.payment_outbox_contradictions (outbox_id, attempt_no)
    SELECT l.outbox_id, a.attempt_no
    FROM unnest($1, $2) AS l(outbox_id, reason)
    CROSS JOIN LATERAL (
      SELECT t.attempt_no FROM {cell}.payment_outbox_attempts t WHERE t.outbox_id = l.outbox_id
        ORDER BY t.attempt_no DESC LIMIT 1) a
    WHERE l.reason = 'CONFLICT'
    ON CONFLICT DO NOTHING;
  END IF;
  PERFORM {cell}.notify_outcome(l.outbox_id) FROM unnest($1) AS l(outbox_id);
END
$$;
-- end of open_dead_letters

-- function close_answered_letters
CREATE OR REPLACE FUNCTION {cell}.close_answered_letters(outbox_ids uuid[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  UPDATE {cell}.payment_dead_letters d
  SET status = 'resolved', note = 'the rail reported that it executed the payment', actor = session_user,
    updated_at = clock_timestamp()
  WHERE d.outbox_id = ANY ($1) AND d.reason = 'OUTCOME_UNKNOWN' AND d.status NOT IN ('manual_replay', 'resolved')
    AND EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = d.outbox_id AND a.state = 'DISPATCHED');
END
$$;
-- end of close_answered_letters

-- function append_outbox_row
CREATE OR REPLACE FUNCTION {cell}.append_outbox_row(
  o {cell}.outbox_outcome, attempt_id uuid, attempt_no integer, state text,
  answers_attempt_no integer, outcome_unknown boolean, result text, rail_reference text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, participant_id, rail_type, attempt_no, state, answers_attempt_no, claimed_at, completed_at,
      result, rail_reference, rail_code, code_table,
     error_code, error_message, latency_ms, worker_id, profile_version, render_version, outcome_unknown, provisional,
     payload, headers, priority, expires_at, enqueued_at, next_attempt_at, next_action,
     first_sent_at, last_sent_at, send_count, inquiry_count)
  SELECT $2, k.outbox_id, p.participant_id,
    coalesce(
      (SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id ORDER BY a.attempt_no
        LIMIT 1),
      (SELECT r.rail_type FROM {cell}.payment_outbox_pending r WHERE r.outbox_id = k.outbox_id)),
    $3, $4::{cell}.outbox_attempt_state, $5,
    coalesce((SELECT a.claimed_at FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = k.outbox_id
      AND a.attempt_no = $5), $1.claimed_at),
    clock_timestamp(), $7, $8, $1.rail_code, $1.code_table,
    CASE WHEN $4 <> 'DISPATCHED' OR $1.error_code = 'RESOLVED' THEN $1.error_code END, $1.error_message, $1.latency_ms,
      $1.worker_id,
    $1.profile_version, coalesce($1.render_version, p.render_version), $6, coalesce($1.provisional, false) AND $6,
    p.payload, p.headers, p.priority, p.expires_at, p.created_at, p.next_attempt_at, p.next_action,
    p.first_sent_at, p.last_sent_at, p.send_count, p.inquiry_count
  FROM {cell}.payment_outbox_keys k
  LEFT JOIN {cell}.payment_outbox_pending p ON p.outbox_id = k.outbox_id AND $4 IN ('DISPATCHED', 'FAILED', 'CANCELLED', 'PARKED')
  WHERE k.outbox_id = $1.outbox_id;
  PERFORM {cell}.notify_outcome($1.outbox_id) WHERE $4 = 'DISPATCHED';
END
$$;
-- end of append_outbox_row

-- function may_be_forgotten_until
CREATE OR REPLACE FUNCTION {cell}.may_be_forgotten_until(outbox_id uuid) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT max(s.opened_at)
    FROM {cell}.payment_outbox_keys k
    CROSS JOIN {cell}.payment_outbox_settings g
    JOIN {cell}.payment_outbox_suspensions s
      ON s.accepted_at IS NULL OR k.created_at < s.accepted_at + g.repeated_within
    WHERE k.outbox_id = $1);
END
$$;
-- end of may_be_forgotten_until

-- function send_may_be_forgotten
CREATE OR REPLACE FUNCTION {cell}.send_may_be_forgotten(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT {cell}.may_be_forgotten_until($1) IS NOT NULL);
END
$$;
-- end of send_may_be_forgotten

-- function judged_to
CREATE OR REPLACE FUNCTION {cell}.judged_to(outbox_id uuid, executed boolean) RETURNS integer
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce(max(a.attempt_no), 0)
    FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.created_at <= (
      SELECT max(l.acted_at) FROM {cell}.payment_operator_log l
      WHERE l.outbox_id = $1 AND l.act = 'RESOLVE' AND (l.detail ->> 'executed')::boolean = $2));
END
$$;
-- end of judged_to

-- function rail_keeps_one_outcome
CREATE OR REPLACE FUNCTION {cell}.rail_keeps_one_outcome(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT (p.profile ->> 'answer_covers_key')::boolean
        AND ({cell}.rules_of_sends($1) @> '[{"answer_covers_key": false}]') IS NOT TRUE
      FROM (
        SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no LIMIT 1) a
      JOIN {cell}.payment_rails r ON r.rail_type = a.rail_type
      JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version), false)
      AND (
        SELECT f.since IS NULL OR f.since <= clock_timestamp()
          AND f.since > clock_timestamp() - (w.known - least(w.known / 10, interval '5 minutes'))
        FROM (SELECT {cell}.forgotten_since($1) AS since) f
        LEFT JOIN LATERAL (SELECT {cell}.rail_knows_keys_for($1) AS known) w ON f.since IS NOT NULL));
END
$$;
-- end of rail_keeps_one_outcome

-- function rail_knows_keys_for
CREATE OR REPLACE FUNCTION {cell}.rail_knows_keys_for(outbox_id uuid) RETURNS interval
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT coalesce((
      SELECT min(CASE WHEN rules.one ->> 'resend_on_unknown' = 'SAME_KEY'
        THEN coalesce((rules.one ->> 'key_window')::interval, '0s') ELSE '0s' END)
      FROM (
        SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no LIMIT 1) a
      JOIN {cell}.payment_rails r ON r.rail_type = a.rail_type
      JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
      CROSS JOIN LATERAL jsonb_array_elements(coalesce({cell}.rules_of_sends($1), '[]') || p.profile) AS rules(one)),
        '0s'));
END
$$;
-- end of rail_knows_keys_for

-- function refusal_covers_all_sends
CREATE OR REPLACE FUNCTION {cell}.refusal_covers_all_sends(outbox_id uuid, reported boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT NOT m.forgotten AND (
      -- A worker whose claim a failover forgot has sent too, whatever the answer was.
      SELECT count(*) FROM {cell}.sends_of($1) s WHERE NOT s.executed AND NOT s.denied
    ) <= 1 OR {cell}.rail_keeps_one_outcome($1)
      AND NOT ($2 AND (m.forgotten OR EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts now
        WHERE now.outbox_id = $1 AND now.result IN ('REFUSED_TRANSIENT', 'REFUSED_BUSINESS'))))
    FROM (SELECT {cell}.send_may_be_forgotten($1) AS forgotten) m);
END
$$;
-- end of refusal_covers_all_sends

-- function standing_sends
CREATE OR REPLACE FUNCTION {cell}.standing_sends(
  outbox_id uuid, OUT attempt_no integer, OUT claimed_at timestamptz, OUT forgotten boolean, OUT settled boolean)
    RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT s.attempt_no, s.claimed_at, s.forgotten, EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts f
    WHERE f.outbox_id = $1 AND f.state = 'FAILED' AND f.result IN ('REFUSED_FINAL', 'REFUSED') AND f.attempt_no > s.attempt_no)
  FROM {cell}.sends_of($1) s
  WHERE NOT s.denied AND NOT (s.executed AND s.claimed_at IS NULL) AND NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts own
    WHERE own.outbox_id = $1 AND own.result IN ('REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'REFUSED')
      AND CASE WHEN s.forgotten THEN own.attempt_no ELSE own.answers_attempt_no END = s.attempt_no);
END
$$;
-- end of standing_sends

-- function refused_and_executed
CREATE OR REPLACE FUNCTION {cell}.refused_and_executed(outbox_id uuid, after_no integer) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    WITH a AS (
      SELECT t.* FROM {cell}.payment_outbox_attempts t WHERE t.outbox_id = $1
    ),
    -- An operator's evidence is not a statement of the rail, and statements that an operator has
    -- judged do not count again.
    executed AS (
      SELECT a.* FROM a
      WHERE a.attempt_no > {cell}.judged_to($1, false) AND a.error_code IS DISTINCT FROM 'RESOLVED'
        AND (a.state = 'DISPATCHED' OR a.state = 'LATE_OUTCOME' AND a.result = 'EXECUTED')
    ),
    refusal AS (
      SELECT a.* FROM a
      WHERE a.attempt_no > {cell}.judged_to($1, true) AND a.result IN ('REFUSED_FINAL', 'REFUSED')
        AND a.error_code IS DISTINCT FROM 'RESOLVED'
    ),
    standing AS (
      SELECT s.* FROM {cell}.standing_sends($1) s
    )
    SELECT EXISTS (
      SELECT FROM executed e
      JOIN refusal r ON r.rail_reference = e.rail_reference
      WHERE greatest(e.attempt_no, r.attempt_no) > $2
        AND NOT EXISTS (
          SELECT FROM standing later
          WHERE NOT later.forgotten
            AND (later.attempt_no > coalesce(r.answers_attempt_no, r.attempt_no)
              OR r.result = 'REFUSED' AND EXISTS (
                SELECT FROM a send
                JOIN a answer ON answer.answers_attempt_no = send.attempt_no
                WHERE send.state = 'DISPATCHING' AND send.attempt_no < later.attempt_no
                  AND answer.result IN ('REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'REFUSED') AND answer.rail_reference = r.rail_reference)))
        -- A send that a restore forgot, of a claim after the refused one.
        AND NOT EXISTS (SELECT FROM standing later WHERE later.forgotten AND later.claimed_at > r.claimed_at))
    OR NOT {cell}.send_may_be_forgotten($1)
      AND EXISTS (SELECT FROM executed e CROSS JOIN refusal r WHERE greatest(e.attempt_no, r.attempt_no) > $2)
      AND NOT EXISTS (
        SELECT FROM standing s
        WHERE NOT EXISTS (SELECT FROM refusal r WHERE r.state = 'FAILED' AND r.attempt_no > s.attempt_no)));
END
$$;
-- end of refused_and_executed

-- function executions_of
CREATE OR REPLACE FUNCTION {cell}.executions_of(
  outbox_id uuid, OUT attempt_no integer, OUT claim_no integer, OUT claimed_at timestamptz, OUT rail_reference text,
  OUT by_another boolean) RETURNS SETOF record
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT e.attempt_no, s.attempt_no, coalesce(s.claimed_at, e.claimed_at), e.rail_reference,
    e.state = 'DISPATCHED' AND e.result = 'EXECUTED' AND EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts proof
      WHERE proof.outbox_id = $1 AND proof.state = 'LATE_OUTCOME' AND proof.result = 'EXECUTED'
        AND proof.attempt_no > s.attempt_no AND proof.attempt_no < e.attempt_no
          AND proof.answers_attempt_no IS DISTINCT FROM s.attempt_no)
  FROM {cell}.payment_outbox_attempts e
  LEFT JOIN {cell}.payment_outbox_attempts s ON s.outbox_id = $1 AND s.attempt_no = e.answers_attempt_no
    AND s.state = 'DISPATCHING'
  WHERE e.outbox_id = $1
    AND (s.attempt_no IS NOT NULL AND (e.state = 'DISPATCHED' OR e.state = 'LATE_OUTCOME' AND e.result = 'EXECUTED')
      OR e.answers_attempt_no IS NULL AND e.claimed_at IS NOT NULL AND e.state = 'LATE_OUTCOME'
        AND e.result = 'EXECUTED');
END
$$;
-- end of executions_of

-- function executed_twice
CREATE OR REPLACE FUNCTION {cell}.executed_twice(outbox_id uuid, after_no integer, own boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    WITH e AS (
      SELECT x.* FROM {cell}.executions_of($1) x WHERE $3 OR NOT x.by_another
    )
    SELECT EXISTS (
      SELECT FROM e one
      JOIN e other ON other.claimed_at < one.claimed_at
      WHERE greatest(one.attempt_no, other.attempt_no) > $2 AND (one.rail_reference = other.rail_reference) IS NOT TRUE
        AND one.claimed_at - other.claimed_at >= {cell}.rail_knows_keys_for($1)));
END
$$;
-- end of executed_twice

-- function answer_open_claim
CREATE OR REPLACE FUNCTION {cell}.answer_open_claim(
  o {cell}.outbox_outcome, claim {cell}.payment_outbox_attempts, last_no integer, whole boolean) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  executes boolean := o.state = 'DISPATCHED';
  proof    {cell}.payment_outbox_attempts;
  proven   boolean;
  -- the payment was refused since the claim; during an inquiry, not a repeated refusal of a send before the proof
  refused_since  boolean;
  two_references boolean; -- two executions since the claim have different references
  doubted  boolean;
  taken    boolean;
  found_none boolean := o.result = 'NOT_FOUND' AND o.next_action = 'SEND'; -- "no such payment" is accepted
  next_no  integer := last_no + 1;
  spent    text; -- the code of a refusal that ended the rail key
  told     record; -- reported sends that a restore forgot
  earlier  boolean := false; -- the claim is older than a failover, which its worker may not have noticed
  forgotten_at timestamptz; -- when the failover may first have forgotten a send
BEGIN
  SELECT a.* INTO proof FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no
    AND a.state = 'LATE_OUTCOME' AND a.result = 'EXECUTED'
  ORDER BY a.attempt_no LIMIT 1;
  proven := FOUND;
  IF executes AND NOT proven AND o.claim_no IS NOT NULL AND claim.state = 'DISPATCHING'
    AND {cell}.is_only_taken({cell}.acceptance_of_sends(o.outbox_id), o.result)
  THEN
    executes := false;
    o.state := 'ACCEPTED';
    o.result := 'ACCEPTED';
    o.next_action := 'INQUIRE';
    o.delay_ms := 0;
    o.outcome_unknown := true;
    o.provisional := true;
  END IF;
  SELECT coalesce(bool_or(a.result = 'REFUSED' AND (claim.state = 'DISPATCHING' OR a.attempt_no > proof.attempt_no
    OR NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts send
      JOIN {cell}.payment_outbox_attempts answer ON answer.outbox_id = o.outbox_id
        AND answer.answers_attempt_no = send.attempt_no
      WHERE send.outbox_id = o.outbox_id AND send.state = 'DISPATCHING'
        AND answer.result IN ('REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'REFUSED') AND answer.rail_reference = a.rail_reference))), false),
    coalesce(bool_or(a.result = 'EXECUTED' AND a.rail_reference <> coalesce(CASE WHEN executes
      THEN o.rail_reference END, proof.rail_reference)), false)
  INTO refused_since, two_references
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no AND a.state = 'LATE_OUTCOME';

  IF proven AND NOT executes THEN
    IF o.result IS NOT NULL THEN
      PERFORM {cell}.append_outbox_row(o, o.attempt_id, next_no, 'LATE_OUTCOME', claim.attempt_no,
        claim.outcome_unknown, o.result, o.rail_reference);
      next_no := next_no + 1;
    END IF;
    PERFORM {cell}.append_outbox_row(o, CASE WHEN o.result IS NULL THEN o.attempt_id ELSE {cell}.uuidv7() END, next_no,
      'DISPATCHED', claim.attempt_no, false, 'EXECUTED', proof.rail_reference);
    -- These contradict the proof: a refusal of the whole payment, a refusal of the last send that
    -- may have been executed or under its reference, and another reference.
    IF o.result = 'REFUSED' OR refused_since OR two_references
      OR o.result IN ('REFUSED_FINAL', 'REFUSED') AND NOT EXISTS (SELECT FROM {cell}.standing_sends(o.outbox_id) s
        WHERE NOT s.settled)
      OR {cell}.refused_and_executed(o.outbox_id, claim.attempt_no)
        OR {cell}.executed_twice(o.outbox_id, claim.attempt_no, false)
      OR {cell}.rests_on_acceptance(o.outbox_id)
    THEN
      PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY['CONFLICT'],
        ARRAY[CASE WHEN two_references THEN 'TWO_REFERENCES' ELSE coalesce(o.error_code, o.rail_code) END]);
      RETURN 'CONFLICT';
    END IF;
    RETURN 'SETTLED';
  END IF;

  -- The outcome accounts for every send that was known when the claim was made. "No such payment"
  -- does not cover a send that became known during the inquiry, and is not accepted if the rail has
  -- meanwhile shown that it knows the payment (rail_has_seen).
  SELECT (NOT claim.outcome_unknown OR found_none) AND coalesce(bool_or(a.result IN ('ACCEPTED', 'UNKNOWN')
      OR a.outcome_unknown AND NOT claim.outcome_unknown OR found_none AND a.result IN ('ACCEPTED', 'EXECUTED', 'REFUSED', 'IN_PROGRESS')), false)
      -- A final refusal covers every send, by the profiles under which they were known to be made.
      OR claim.outcome_unknown AND o.state = 'FAILED' AND coalesce(bool_or(a.result IN ('ACCEPTED', 'UNKNOWN')
        OR a.answers_attempt_no IS NULL AND a.claimed_at IS NOT NULL AND a.result IN ('REFUSED', 'IN_PROGRESS', 'NOT_FOUND', 'UNAVAILABLE')), false)
        AND NOT {cell}.rail_keeps_one_outcome(o.outbox_id)
      -- The worker judged the answer by what it knew when it called. The data may have gone back
      -- since.
      OR o.state = 'FAILED' AND {cell}.send_may_be_forgotten(o.outbox_id)
        AND NOT (coalesce(o.result IN ('REFUSED_FINAL', 'REFUSED'), false) AND {cell}.rail_keeps_one_outcome(o.outbox_id)),
    NOT claim.provisional AND coalesce(bool_or(a.result = 'ACCEPTED'), false)
  INTO doubted, taken
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no AND a.state = 'LATE_OUTCOME';
  -- A refusal of one send among several leaves the others unknown.
  IF (doubted OR taken OR o.result = 'REFUSED') AND NOT executes AND whole IS NOT TRUE THEN
    o.outcome_unknown := true;
    o.provisional := coalesce(o.provisional, false) OR taken;
    IF (taken OR found_none) AND o.next_action IS NOT NULL THEN
      o.next_action := 'INQUIRE';
    END IF;
    IF o.state = 'FAILED' THEN
      o.state := 'PARKED';
      o.dead_reason := 'OUTCOME_UNKNOWN';
    END IF;
  END IF;

  -- Everything that the old server recorded of this claim, and sent later, is forgotten. The worker
  -- of a claim that was made after the failover knows of it. For such a claim, an answer which
  -- proves that nothing left raises no doubt.
  IF o.next_action = 'SEND' AND NOT o.outcome_unknown THEN
    earlier := coalesce(claim.claimed_at < {cell}.may_be_forgotten_until(o.outbox_id), false);
    o.outcome_unknown := earlier OR coalesce(o.result IN ('REFUSED_TRANSIENT', 'REFUSED_BUSINESS'), false)
      AND {cell}.send_may_be_forgotten(o.outbox_id);
  END IF;

  IF o.next_action = 'SEND' THEN
    spent := (
      SELECT a.error_code FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = o.outbox_id AND a.attempt_no > claim.attempt_no
        AND a.state = 'LATE_OUTCOME' AND a.result IN ('REFUSED_TRANSIENT', 'REFUSED_BUSINESS')
        AND a.error_code IN ('NEW_ID_NEEDED', 'BUSINESS_REFUSED')
        -- A refusal before the last replay does not count.
        AND coalesce(a.answers_attempt_no, 0) >= coalesce((
          SELECT max(r.attempt_no) FROM {cell}.payment_outbox_attempts r
          WHERE r.outbox_id = o.outbox_id AND r.state = 'REPLAYED'), 0)
      ORDER BY a.attempt_no LIMIT 1);
    IF spent IS NOT NULL THEN
      o.outcome_unknown := true;
      o.next_action := NULL;
      o.park_attempt_id := coalesce(o.park_attempt_id, {cell}.uuidv7());
      o.dead_reason := 'OUTCOME_UNKNOWN';
    END IF;
  END IF;

  PERFORM {cell}.append_outbox_row(o, o.attempt_id, next_no, o.state, claim.attempt_no,
    o.outcome_unknown AND NOT executes, o.result, o.rail_reference);
  o.error_code := coalesce(spent, o.error_code);
  IF executes THEN
    -- A report that arrives while the send is in flight is the proof itself.
    IF refused_since AND (proven OR o.claim_no IS NULL AND claim.state = 'DISPATCHING')
      OR proven AND (two_references OR {cell}.rests_on_acceptance(o.outbox_id))
      OR {cell}.refused_and_executed(o.outbox_id, claim.attempt_no)
        OR {cell}.executed_twice(o.outbox_id, claim.attempt_no, o.claim_no IS NOT NULL)
    THEN
      PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY['CONFLICT'],
        ARRAY[CASE WHEN proven AND two_references THEN 'TWO_REFERENCES' END]);
      RETURN 'CONFLICT';
    END IF;
    RETURN 'IN';
  END IF;
  IF o.park_attempt_id IS NOT NULL THEN
    next_no := next_no + 1;
    PERFORM {cell}.append_outbox_row(o, o.park_attempt_id, next_no, 'PARKED', NULL, o.outcome_unknown, NULL, NULL);
  END IF;
  IF o.dead_reason IS NOT NULL THEN
    PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY[o.dead_reason],
      ARRAY[coalesce(o.error_code, o.rail_code)]);
  END IF;
  IF o.next_action IS NOT NULL THEN
    SELECT f.* INTO told FROM {cell}.forgotten_sends(o.outbox_id) f;
    IF earlier THEN
      forgotten_at := (SELECT min(greatest(s.known_until, 'epoch')) FROM {cell}.payment_outbox_suspensions s
        WHERE s.opened_at > claim.claimed_at);
    END IF;
    INSERT INTO {cell}.payment_outbox_pending AS p
      (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
        headers, next_action, outcome_unknown, provisional,
       first_sent_at, last_sent_at, send_count, inquiry_count, render_version)
    VALUES (claim.outbox_id, claim.participant_id, claim.rail_type, claim.payload, next_no,
      clock_timestamp() + make_interval(secs => o.delay_ms / 1000.0),
      claim.enqueued_at, claim.priority, claim.expires_at, claim.headers, o.next_action, o.outcome_unknown,
      o.provisional, least(CASE WHEN o.counts_send THEN coalesce(claim.first_sent_at, claim.claimed_at)
        ELSE claim.first_sent_at END, told.first_at, forgotten_at),
      greatest(CASE WHEN o.counts_send THEN claim.claimed_at ELSE claim.last_sent_at END, told.last_at, forgotten_at),
      o.send_count, o.inquiry_count, CASE WHEN o.counts_send
        OR claim.first_sent_at IS NOT NULL OR earlier THEN claim.render_version END)
    -- A row that is there already was put back while the instruction was claimed. It gets
    -- attempt_count 0: see record.sql.
    ON CONFLICT ON CONSTRAINT payment_outbox_pending_pk DO UPDATE SET
      attempt_count = 0,
      outcome_unknown = p.outcome_unknown OR excluded.outcome_unknown;
  END IF;
  RETURN 'IN';
END
$$;
-- end of answer_open_claim

-- function left_the_archive
CREATE OR REPLACE FUNCTION {cell}.left_the_archive(outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT (SELECT t.partdefid <> 0 FROM pg_partitioned_table t
      WHERE t.partrelid = '{cell}.payment_outbox_attempts'::regclass)
      AND coalesce($1 < min(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM [(]''([0-9a-f-]{36})''[)]'))::uuid,
        false)
    FROM pg_inherits i
    JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = '{cell}.payment_outbox_attempts'::regclass);
END
$$;
-- end of left_the_archive

-- function record_late_outcome
CREATE OR REPLACE FUNCTION {cell}.record_late_outcome(outcome jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  tries_max CONSTANT integer := 64;
  o         {cell}.outbox_outcome := jsonb_populate_record(NULL::{cell}.outbox_outcome, outcome);
  executes  boolean := o.state = 'DISPATCHED';
  refuses   boolean := o.result IN ('REFUSED_FINAL', 'REFUSED');
  -- A refusal after which the key is not sent again (payment.CodeNewIDNeeded, CodeBusinessRefused).
  spent     boolean := o.result IN ('REFUSED_TRANSIENT', 'REFUSED_BUSINESS')
    AND coalesce(o.error_code IN ('NEW_ID_NEEDED', 'BUSINESS_REFUSED'), false);
  weight    text := CASE WHEN o.state = 'DISPATCHED' THEN 'EXECUTED' ELSE o.result END;
  waiting   {cell}.payment_outbox_pending;
  is_waiting boolean;
  put_back  boolean;
  claim     {cell}.payment_outbox_attempts;
  is_claimed boolean;
  claim_no  integer;
  forgotten boolean; -- a restore forgot the claim that it answers
  of_send   boolean; -- it answers the claim of a send, or a forgotten claim
  last_no   integer;
  last      {cell}.payment_outbox_attempts;
  still_unknown boolean;
  knows_for interval; -- how long the rail remembers a key
  whole     boolean; -- it refuses the payment, not only one of its sends
  settled   boolean; -- no send of the payment can have been forgotten
  unseen    boolean; -- whether a send can have been forgotten is not known yet
  own       boolean; -- it answers the open claim
  answer    text;
  counts    boolean; -- it is of a send that got no answer
  doubts    boolean; -- by it, some send may have been executed
  denies    boolean := coalesce(o.result IN ('REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'REFUSED_LATER', 'REFUSED_RAIL', 'NOT_SENT', 'REFUSED', 'CHECK_FAILED', 'TAMPERED', 'WINDOW_CLOSED', 'RENDER_CHANGED'), false);
  torn      boolean; -- the rail had already contradicted itself
  tells_of_send boolean; -- it reports a send that a restore forgot
BEGIN
  PERFORM FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = o.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = format('outbox_id %s is not known to this cell', o.outbox_id);
  END IF;

  -- This holds too before any component has compared a server that was promoted or restored.
  settled := {cell}.server_is_settled();
  unseen := NOT settled AND NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_suspensions s
    WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time()
      AND s.timeline = {cell}.server_timeline());
  FOR try IN 1..tries_max LOOP
    -- The first statement excludes claims; the second reads the rows as they are now. An
    -- instruction that was put back is not pending, whatever its pending row contains: the archive
    -- is authoritative.
    SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = o.outbox_id FOR UPDATE;
    is_waiting := FOUND;
    put_back := is_waiting AND {cell}.put_back_after(o.outbox_id) IS NOT NULL;
    is_waiting := is_waiting AND NOT put_back;
    IF EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = o.outbox_id AND a.attempt_id = o.attempt_id)
    THEN
      RETURN 'MINE';
    END IF;
    SELECT coalesce(max(a.attempt_no), 0) INTO last_no FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = o.outbox_id;
    SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = o.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
    -- A failover lost a claim that the archive does not have. Its evidence counts; its number does
    -- not, because another claim may have it by now.
    claim_no := (
      SELECT a.attempt_no FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = o.outbox_id AND a.attempt_no = o.claim_no AND a.claimed_at = o.claimed_at
        AND a.state IN ('DISPATCHING', 'INQUIRING'));
    forgotten := o.claim_no IS NOT NULL AND claim_no IS NULL;
    of_send := o.claim_no IS NOT NULL AND (forgotten OR EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts s
      WHERE s.outbox_id = o.outbox_id AND s.attempt_no = claim_no AND s.state = 'DISPATCHING'));
    -- The reaper found the worker of the claim dead: the worker may have sent.
    IF forgotten AND o.state = 'ZOMBIE_REQUEUE' THEN
      o.state := 'UNKNOWN';
      weight := 'UNKNOWN';
    END IF;
    is_claimed := coalesce(last.state IN ('DISPATCHING', 'INQUIRING'), false);
    -- The acceptance of a send is final only by every profile under which the instruction was sent,
    -- as far as they are known by now. It does not reopen an instruction that has ended.
    -- answer_open_claim implements the same rule.
    IF executes AND of_send AND o.counts_send AND NOT (is_claimed AND claim_no = last.attempt_no)
      AND (is_waiting OR coalesce(last.state NOT IN ('DISPATCHED', 'FAILED', 'CANCELLED'), true))
      AND {cell}.is_only_taken({cell}.acceptance_of_sends(o.outbox_id), o.result)
    THEN
      executes := false;
      o.state := 'ACCEPTED';
      o.result := 'ACCEPTED';
      weight := 'ACCEPTED';
      o.outcome_unknown := true;
      o.provisional := true;
    END IF;
    -- An inquiry also reports on a send: that the rail has the payment in progress, or, for a
    -- forgotten claim, the unknown outcome with which it was made.
    counts := o.state = 'UNKNOWN' AND coalesce(o.counts_send, false);
    doubts := coalesce(o.state = 'ACCEPTED'
      OR counts OR o.result = 'IN_PROGRESS' OR forgotten AND o.outcome_unknown AND NOT executes, false);
    claim := CASE WHEN is_claimed THEN last END;
    IF o.rail_type <> coalesce(last.rail_type, waiting.rail_type) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = format('outbox_id %s is not of rail %s', o.outbox_id,
        o.rail_type);
    END IF;
    IF last_no = 0 AND NOT is_waiting AND {cell}.left_the_archive(o.outbox_id) THEN
      RETURN 'RETIRED';
    END IF;
    -- Either a claim of another session was answered between the two statements; or, if a single
    -- statement finds the same, the pending row is lost and the evidence still counts.
    CONTINUE WHEN NOT is_waiting AND NOT put_back AND NOT is_claimed
      AND coalesce(last.state IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED'), true) AND NOT EXISTS (
        SELECT FROM (
          SELECT a.state FROM {cell}.payment_outbox_attempts a
          WHERE a.outbox_id = o.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) l
        WHERE l.state IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED')
          AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = o.outbox_id));

    BEGIN
      -- A send that a restore has forgotten can't be counted: while there may be one, a refusal
      -- ends nothing. Nor does a refusal that is, or may be, of a send before a replay.
      IF (refuses OR spent) AND EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = o.outbox_id AND a.state = 'REPLAYED' AND a.attempt_no > coalesce(claim_no, 0))
      THEN
        settled := false;
        spent := false;
      END IF;
      own := is_claimed AND claim_no IS NOT DISTINCT FROM claim.attempt_no;
      -- The knowledge of restores with which the worker called may be outdated. A refusal of a send
      -- that counts as lost is not evaluated again later either.
      IF unseen AND (own AND o.state = 'FAILED' OR (refuses OR spent) AND (is_waiting OR last.state = 'PARKED')
        AND o.claim_no IS NOT NULL AND NOT forgotten) THEN
        RAISE EXCEPTION USING ERRCODE = 'RH011',
          MESSAGE = format('the outcome that may end outbox_id %s unpaid is not recorded yet: no component has compared this start of the server with what it remembers, and a send of the payment may be forgotten', o.outbox_id),
          HINT = 'Call again. A relayer compares as soon as it reaches the server.';
      END IF;
      whole := o.result = 'REFUSED' AND (settled OR own) AND NOT (forgotten AND doubts)
        AND {cell}.refusal_covers_all_sends(o.outbox_id, o.claim_no IS NULL);
      IF own OR is_claimed AND (o.claim_no IS NULL AND (executes OR whole OR NOT refuses)) THEN
        answer := {cell}.answer_open_claim(o, claim, last_no, whole);
        PERFORM {cell}.close_answered_letters(ARRAY[o.outbox_id]);
        RETURN answer;
      END IF;

      knows_for := CASE WHEN executes AND of_send THEN {cell}.rail_knows_keys_for(o.outbox_id) END;
      IF refuses AND last.state = 'FAILED'
        AND last.result IN ('REFUSED_FINAL', 'REFUSED') AND last.error_code IS DISTINCT FROM 'RESOLVED'
        AND NOT is_waiting AND NOT doubts AND NOT forgotten
        -- A new reference is stored: the rail may still report an execution under it.
        AND (o.rail_reference IS NULL OR EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts a
          WHERE a.outbox_id = o.outbox_id AND a.result IN ('REFUSED_FINAL', 'REFUSED') AND a.rail_reference = o.rail_reference
            AND a.error_code IS DISTINCT FROM 'RESOLVED'))
        OR EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = o.outbox_id
          AND CASE
            -- An operator's evidence is not a statement of the rail.
            WHEN executes THEN (a.state = 'DISPATCHED' AND a.error_code IS DISTINCT FROM 'RESOLVED'
              OR a.state = 'LATE_OUTCOME' AND a.result = 'EXECUTED')
              AND coalesce(a.rail_reference = o.rail_reference, o.rail_reference IS NULL)
              -- Two sends may both have been executed if the rail no longer remembered the key. An
              -- execution that no send itself reported hides that of a send, if there are other
              -- sends further apart than that.
              AND (NOT of_send OR (
                SELECT coalesce(bool_or(e.claimed_at = o.claimed_at
                  OR greatest(e.claimed_at - o.claimed_at, o.claimed_at - e.claimed_at) < knows_for),
                  knows_for > (
                    SELECT greatest(max(t.claimed_at), o.claimed_at) - least(min(t.claimed_at), o.claimed_at)
                    FROM {cell}.sends_of(o.outbox_id) s
                    JOIN {cell}.payment_outbox_attempts t ON t.outbox_id = o.outbox_id AND t.attempt_no = s.attempt_no
                    WHERE NOT s.denied))
                FROM {cell}.executions_of(o.outbox_id) e
                WHERE e.attempt_no = a.attempt_no AND NOT e.by_another))
              -- Evidence that was judged before a replay, or by an operator, counts again.
              AND a.attempt_no > coalesce((
                SELECT max(r.attempt_no) FROM {cell}.payment_outbox_attempts r
                WHERE r.outbox_id = o.outbox_id AND r.state = 'REPLAYED'), 0)
              AND a.attempt_no > {cell}.judged_to(o.outbox_id, false)
            -- The time distinguishes a forgotten claim from others. That the rail has already seen
            -- the key is new evidence.
            ELSE a.state = 'LATE_OUTCOME' AND a.result = weight
              AND a.answers_attempt_no IS NOT DISTINCT FROM claim_no
              AND (claim_no IS NOT NULL OR a.claimed_at IS NOT DISTINCT FROM o.claimed_at)
              AND (a.error_code = 'SEEN_BEFORE' OR o.error_code IS DISTINCT FROM 'SEEN_BEFORE')
              -- Evidence from before the end counts again against it.
              AND (NOT refuses OR last.state IS DISTINCT FROM 'DISPATCHED' OR a.attempt_no > last.attempt_no)
              -- A report that follows a send may be of that send.
              AND (NOT refuses OR o.claim_no IS NOT NULL OR NOT EXISTS (
                SELECT FROM {cell}.sends_of(o.outbox_id) s
                WHERE NOT s.forgotten AND NOT s.denied AND s.attempt_no > a.attempt_no))
              AND a.rail_reference IS NOT DISTINCT FROM o.rail_reference END)
      THEN
        RETURN 'REPEATED';
      END IF;

      still_unknown := CASE
        WHEN executes OR whole THEN false
        WHEN doubts THEN true
        WHEN (refuses OR spent) AND {cell}.send_may_be_forgotten(o.outbox_id) THEN true
        -- LATE_OUTCOME rows may hold a doubt that the last other row does not.
        ELSE (NOT is_waiting OR waiting.outcome_unknown)
          AND {cell}.outbox_unsettled_send(o.outbox_id, claim_no) END;
      torn := denies AND {cell}.refused_and_executed(o.outbox_id, 0);
      PERFORM {cell}.append_outbox_row(o, o.attempt_id, last_no + 1, 'LATE_OUTCOME', claim_no,
        coalesce(last.outcome_unknown, false) OR doubts,
        weight, o.rail_reference);

      IF is_claimed THEN
        RETURN 'LATE';
      ELSIF last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED') AND NOT is_waiting THEN
        -- These are conflicts, which an operator has to decide: two executions under two
        -- references, or of two sends; an execution of a payment that had failed; a refusal and an
        -- execution by the rail that exclude each other; a refusal of the payment, or of the last
        -- send that may have been executed; an answer that the last send was refused or not made,
        -- if the execution rests on an operator's evidence alone; a provisional acceptance, or "in
        -- progress", of a payment that was ended otherwise than by the rail's answer for the whole
        -- payment (an operator's evidence is not one); a send without an answer that became known
        -- after the end. A final refusal accounts for the known sends. It does not account for a
        -- forgotten send: the acceptance of another send, made while acceptances were provisional,
        -- may be what the rail had answered to the forgotten one.
        IF executes AND (last.state <> 'DISPATCHED' OR EXISTS (
            SELECT FROM {cell}.payment_outbox_attempts a
            WHERE a.outbox_id = o.outbox_id AND a.attempt_id <> o.attempt_id AND a.rail_reference <> o.rail_reference
              AND (a.state = 'DISPATCHED' OR a.state = 'LATE_OUTCOME' AND a.result = 'EXECUTED')))
          OR refuses AND last.state = 'DISPATCHED'
            AND (o.result = 'REFUSED' OR claim_no = last.answers_attempt_no
              AND {cell}.refusal_covers_all_sends(o.outbox_id, false)
              OR NOT EXISTS (SELECT FROM {cell}.standing_sends(o.outbox_id) s WHERE NOT s.settled))
          OR denies AND last.error_code IS NOT DISTINCT FROM 'RESOLVED'
            AND NOT {cell}.send_may_be_forgotten(o.outbox_id)
            AND last.state = 'DISPATCHED' AND last.answers_attempt_no IS NULL
            AND NOT EXISTS (SELECT FROM {cell}.standing_sends(o.outbox_id))
            -- No conflict if the rail has meanwhile confirmed the evidence.
            AND NOT EXISTS (
              SELECT FROM {cell}.payment_outbox_attempts a
              WHERE a.outbox_id = o.outbox_id AND a.attempt_no > last.attempt_no AND a.result = 'EXECUTED')
          OR (executes OR refuses) AND {cell}.refused_and_executed(o.outbox_id, last_no)
          OR executes AND {cell}.executed_twice(o.outbox_id, last_no, false)
          OR denies AND last.state = 'DISPATCHED' AND NOT torn AND {cell}.refused_and_executed(o.outbox_id, 0)
          OR doubts AND NOT counts AND last.state IN ('FAILED', 'CANCELLED')
            AND (claim_no IS NULL
              OR last.result IS DISTINCT FROM 'REFUSED' OR last.error_code IS NOT DISTINCT FROM 'RESOLVED')
          OR counts AND last.state IN ('FAILED', 'CANCELLED')
            AND (claim_no IS NULL OR last.result IS NULL OR last.result NOT IN ('REFUSED_FINAL', 'REFUSED'))
          OR doubts AND forgotten AND last.state = 'DISPATCHED' AND {cell}.rests_on_acceptance(o.outbox_id)
        THEN
          PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY['CONFLICT'],
            ARRAY[coalesce(o.error_code, o.rail_code)]);
          RETURN 'CONFLICT';
        END IF;
        RETURN 'LATE';
      ELSIF executes OR (refuses OR spent) AND settled AND NOT still_unknown THEN
        PERFORM {cell}.append_outbox_row(o, {cell}.uuidv7(), last_no + 2,
          CASE WHEN executes THEN 'DISPATCHED' ELSE 'FAILED' END, claim_no, false, weight, o.rail_reference);
        DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = o.outbox_id;
        -- The rail contradicts itself: the payment is recorded as executed, and an operator
        -- decides.
        IF executes AND {cell}.refused_and_executed(o.outbox_id, last_no) THEN
          PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY['CONFLICT'],
            ARRAY[coalesce(o.error_code, o.rail_code)]);
          RETURN 'CONFLICT';
        ELSIF executes THEN
          UPDATE {cell}.payment_dead_letters d
          SET status = 'resolved', note = 'the rail''s own evidence came late', actor = session_user,
            updated_at = clock_timestamp()
          WHERE d.outbox_id = o.outbox_id AND d.reason <> 'TAMPERED' AND d.status NOT IN ('manual_replay', 'resolved');
        ELSE
          PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id],
            ARRAY['FAILED'], ARRAY[coalesce(o.error_code, o.rail_code)]);
        END IF;
        RETURN 'SETTLED';
      ELSIF is_waiting AND spent AND waiting.next_action = 'SEND' THEN
        PERFORM {cell}.append_outbox_row(o, {cell}.uuidv7(), last_no + 2, 'PARKED', NULL, true, NULL, NULL);
        DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = o.outbox_id;
        PERFORM {cell}.open_dead_letters(ARRAY[o.outbox_id], ARRAY['OUTCOME_UNKNOWN'],
          ARRAY[coalesce(o.error_code, o.rail_code)]);
        RETURN 'SETTLED';
      ELSIF is_waiting THEN
        tells_of_send := coalesce(forgotten AND (o.counts_send OR doubts AND o.result IN ('REFUSED', 'IN_PROGRESS', 'NOT_FOUND', 'UNAVAILABLE')), false);
        -- A row that is appended for a pending instruction raises its attempt_count, so that the
        -- number of the next claim is right. A late provisional acceptance also stops re-sends, and
        -- a send without an answer has an unknown outcome, however late it becomes known.
        UPDATE {cell}.payment_outbox_pending p
        SET attempt_count = greatest(p.attempt_count, last_no + 1),
          provisional = p.provisional OR o.state = 'ACCEPTED',
          outcome_unknown = p.outcome_unknown OR doubts,
          -- The send of a claim that a failover forgot is an additional one. Deadlines and the age
          -- of a "no such payment" count from the latest send, and the key window from the first. A
          -- send that a forgotten inquiry asked about was made before that inquiry.
          first_sent_at = CASE WHEN tells_of_send THEN least(p.first_sent_at, o.claimed_at) ELSE p.first_sent_at END,
          last_sent_at = CASE WHEN tells_of_send THEN greatest(p.last_sent_at, o.claimed_at) ELSE p.last_sent_at END,
          render_version = CASE WHEN forgotten AND o.counts_send THEN coalesce(p.render_version, o.render_version)
            ELSE p.render_version END,
          send_count = p.send_count + CASE WHEN tells_of_send THEN 1 ELSE 0 END,
          next_action = CASE WHEN o.state = 'ACCEPTED' OR doubts AND NOT counts THEN 'INQUIRE' ELSE p.next_action END
        WHERE p.outbox_id = o.outbox_id;
      END IF;
      RETURN 'LATE';
    EXCEPTION WHEN unique_violation THEN
      -- Another session appended a row concurrently: start again.
      o := jsonb_populate_record(NULL::{cell}.outbox_outcome, outcome);
      executes := o.state = 'DISPATCHED';
      weight := CASE WHEN executes THEN 'EXECUTED' ELSE o.result END;
    END;
  END LOOP;
  -- A partition may be detached: the rows in it must not be written a second time.
  IF last_no = 0 AND NOT is_waiting THEN
    RAISE EXCEPTION USING ERRCODE = 'RH011',
      MESSAGE = format('neither pending nor the archive has a row of outbox_id %s, and its month was not retired: nothing is stored', o.outbox_id),
      HINT = 'Find out what is missing (railhead prove run nothing-lost), bring it back, and call again.';
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'RH011',
    MESSAGE = format('outbox_id %s changed under each of %s tries', o.outbox_id, tries_max), HINT = 'Call again.';
END
$$;
-- end of record_late_outcome

-- function record_callback
CREATE OR REPLACE FUNCTION {cell}.record_callback(report jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF (report ->> 'state' = 'DISPATCHED' AND coalesce(report ->> 'result', 'EXECUTED') IN ('ACCEPTED', 'EXECUTED')
    OR report ->> 'state' = 'FAILED' AND report ->> 'result' = 'REFUSED') IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a callback must report that a payment was executed or that it was refused';
  END IF;
  IF coalesce(report ->> 'rail_type', '') = '' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a callback must name the rail that reports: it is evidence only of payments of that rail';
  END IF;
  RETURN {cell}.record_late_outcome((
    SELECT jsonb_object_agg(e.key, e.value)
      || jsonb_build_object('dead_reason', CASE report ->> 'state' WHEN 'FAILED' THEN 'FAILED' END)
      || '{"outcome_unknown": false, "provisional": false, "counts_send": false, "delay_ms": 0, "send_count": 0, '
        '"inquiry_count": 0}'
    FROM jsonb_each(report) e
    WHERE e.key IN ('attempt_id', 'outbox_id', 'rail_type', 'state', 'result', 'rail_reference', 'rail_code',
      'code_table',
      'error_code', 'error_message', 'worker_id')));
END
$$;
-- end of record_callback

-- function beat_callbacks
CREATE OR REPLACE FUNCTION {cell}.beat_callbacks(name text, host text, version text, status text, activity text,
  stale_after_ms bigint, host_clock timestamptz, looked_at timestamptz, vouched boolean)
RETURNS TABLE (beats bigint, budget_version integer, claim_timeout_ms integer, start_within_ms integer,
  record_within_ms integer,
  drain_ms integer, heartbeat_stale_ms integer)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH budget AS MATERIALIZED (
    SELECT s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms, s.heartbeat_stale_ms
    FROM {cell}.payment_outbox_settings s WHERE s.singleton
  ),
  beat AS (
    INSERT INTO {cell}.outbox_heartbeats AS h
      (name, kind, host, version, status, activity, stale_after_ms, clock_offset_ms, server_started_at, vouched,
        budget_version)
    SELECT $1, 'callback', $2, $3, $4, $5, greatest($6, s.heartbeat_stale_ms),
      (extract(epoch FROM clock_timestamp() - $7) * 1000)::bigint, pg_postmaster_start_time(), $9, s.budget_version
    FROM budget s
    WHERE coalesce($8 = pg_postmaster_start_time(), true)
    ON CONFLICT ON CONSTRAINT outbox_heartbeats_pk DO UPDATE SET last_tick_at = clock_timestamp(),
      status = excluded.status, activity = excluded.activity, clock_offset_ms = excluded.clock_offset_ms,
      beats = h.beats + 1, vouched = excluded.vouched, server_started_at = excluded.server_started_at,
      stale_after_ms = excluded.stale_after_ms, budget_version = excluded.budget_version, tick_before_start = CASE
        WHEN h.vouched AND h.server_started_at <> excluded.server_started_at THEN h.last_tick_at
        ELSE h.tick_before_start END
    WHERE h.kind = 'callback'
    RETURNING h.beats
  )
  SELECT b.beats, s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms,
    s.heartbeat_stale_ms
  FROM beat b CROSS JOIN budget s
$$;
-- end of beat_callbacks

-- function payment_of_rail_key
CREATE OR REPLACE FUNCTION {cell}.payment_of_rail_key(rail_key uuid) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT k.outbox_id FROM {cell}.payment_outbox_keys k WHERE k.rail_key = $1
$$;
-- end of payment_of_rail_key

-- function rests_on_evidence
CREATE OR REPLACE FUNCTION {cell}.rests_on_evidence(attempt {cell}.payment_outbox_attempts) RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT coalesce($1.error_code = 'RESOLVED', false) OR EXISTS (
    SELECT FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = $1.outbox_id AND l.act = 'RESOLVE' AND l.acted_at >= $1.created_at
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts n
        WHERE n.outbox_id = $1.outbox_id AND n.attempt_no > $1.attempt_no AND n.state <> 'LATE_OUTCOME'
          AND n.created_at <= l.acted_at))
$$;
-- end of rests_on_evidence

-- function payment_certainty
CREATE OR REPLACE FUNCTION {cell}.payment_certainty(outbox_id uuid, settled boolean) RETURNS text
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
DECLARE
  last     {cell}.payment_outbox_attempts; -- the last row that is not LATE_OUTCOME
  refused  {cell}.payment_outbox_attempts; -- the latest row that proves that a send was not executed
  waiting  {cell}.payment_outbox_pending;
  waits    boolean;
  ended    boolean;
  doubted  boolean; -- evidence after the last state contradicts it
BEGIN
  IF EXISTS (
    SELECT FROM {cell}.payment_dead_letters d
    WHERE d.outbox_id = $1 AND d.reason = 'CONFLICT' AND d.status NOT IN ('manual_replay', 'resolved'))
  THEN
    RETURN 'CONTRADICTED';
  END IF;
  SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1;
  waits := FOUND;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  ended := coalesce(last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED'), false);
  IF last.state = 'DISPATCHED' THEN
    RETURN CASE WHEN {cell}.rests_on_evidence(last) THEN 'EXECUTED_BY_EVIDENCE' ELSE 'ACCEPTED' END;
  END IF;
  IF NOT $2
    OR last.state = 'DISPATCHING' OR last.provisional OR last.outcome_unknown
    OR waits AND (waiting.provisional OR waiting.outcome_unknown)
  THEN
    RETURN 'OUTCOME_UNKNOWN';
  END IF;
  SELECT a.* INTO refused FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1
    AND (a.result IN ('REFUSED_FINAL', 'REFUSED_TRANSIENT', 'REFUSED_BUSINESS', 'REFUSED', 'REFUSED_LATER')
      OR a.result = 'REFUSED_RAIL' AND a.rail_code <> ''
      OR a.result = 'NOT_FOUND' AND NOT a.outcome_unknown AND a.state <> 'LATE_OUTCOME'
      OR a.state = 'FAILED' AND a.error_code = 'RESOLVED')
    -- A refusal that follows an operator's evidence is of another send, or may be of one among
    -- several.
    AND (a.result IS NOT DISTINCT FROM 'REFUSED' AND a.state <> 'LATE_OUTCOME' OR (
      SELECT r.state = 'FAILED' AND r.error_code IS NOT DISTINCT FROM 'RESOLVED'
      FROM {cell}.payment_outbox_attempts r
      WHERE r.outbox_id = $1 AND r.result = 'REFUSED' AND r.state <> 'LATE_OUTCOME' AND r.attempt_no < a.attempt_no
      ORDER BY r.attempt_no DESC LIMIT 1) IS NOT TRUE)
  ORDER BY a.attempt_no DESC LIMIT 1;
  doubted := EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $1 AND a.state = 'LATE_OUTCOME' AND a.result IN ('ACCEPTED', 'UNKNOWN', 'EXECUTED', 'IN_PROGRESS')
      AND a.attempt_no > coalesce(last.attempt_no, 0));
  IF doubted AND (last.state = 'CANCELLED' OR last.state = 'FAILED' AND refused.outbox_id IS NULL) THEN
    RETURN 'NOT_EXECUTED_BY_EVIDENCE';
  END IF;
  IF doubted AND NOT ended THEN
    RETURN 'OUTCOME_UNKNOWN';
  END IF;
  -- A refusal that never reached the payment, or a send that never left, says nothing about the
  -- call that this one may repeat.
  IF (refused.outbox_id IS NULL OR refused.result IN ('REFUSED_LATER', 'REFUSED_RAIL', 'NOT_SENT', 'CHECK_FAILED', 'TAMPERED', 'WINDOW_CLOSED', 'RENDER_CHANGED'))
    AND {cell}.repeats_forgotten_call((SELECT k.created_at FROM {cell}.payment_outbox_keys k
      WHERE k.outbox_id = $1)) IS NOT NULL
  THEN
    RETURN 'OUTCOME_UNKNOWN';
  END IF;
  IF refused.outbox_id IS NOT NULL THEN
    RETURN CASE
      WHEN ended AND {cell}.rests_on_evidence(last)
        OR (ended OR refused.attempt_no <> last.attempt_no) AND {cell}.rests_on_evidence(refused)
          THEN 'NOT_EXECUTED_BY_EVIDENCE'
      ELSE 'REFUSED' END;
  END IF;
  RETURN CASE
    WHEN EXISTS (SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 AND a.outcome_unknown)
      THEN 'OUTCOME_UNKNOWN'
    WHEN last.outbox_id IS NULL AND NOT waits THEN 'OUTCOME_UNKNOWN' -- only its registry row is left
    ELSE 'NOT_SENT' END;
END
$$;
-- end of payment_certainty

-- function logins_sharing_a_role
CREATE OR REPLACE FUNCTION {cell}.logins_sharing_a_role(login text) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
  WITH RECURSIVE up(oid) AS (
    SELECT m.roleid FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.member WHERE r.rolname = $1
    UNION
    SELECT m.roleid FROM pg_auth_members m JOIN up ON up.oid = m.member
  ), down(oid) AS (
    SELECT up.oid FROM up JOIN pg_roles r ON r.oid = up.oid
    WHERE NOT starts_with(r.rolname, 'pg_')
      AND r.rolname NOT IN ('railhead_owner', 'railhead_ingest', 'railhead_executor', 'railhead_callbacks',
        'railhead_api', 'railhead_events',
        'railhead_operator', 'railhead_control', 'railhead_readonly', 'railhead_auditor')
    UNION
    SELECT m.member FROM pg_auth_members m JOIN down ON down.oid = m.roleid
  )
  SELECT array_agg(DISTINCT l.name)
  FROM (SELECT $1 AS name UNION ALL SELECT r.rolname FROM down JOIN pg_roles r ON r.oid = down.oid
    WHERE r.rolcanlogin) l
$$;
-- end of logins_sharing_a_role

-- function status_of_payments
CREATE OR REPLACE FUNCTION {cell}.status_of_payments(outbox_ids uuid[])
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  settled CONSTANT boolean := {cell}.server_is_settled();
BEGIN
  RETURN QUERY
  SELECT asked.n::integer, k.outbox_id, k.sequence_id, k.created_at,
    CASE WHEN k.outbox_id IS NOT NULL THEN {cell}.payment_outbox_state(k.outbox_id) END,
    {cell}.payment_certainty(k.outbox_id, settled),
    CASE WHEN k.outbox_id IS NOT NULL THEN coalesce(latest.attempt_no, 0) END,
    CASE WHEN k.outbox_id IS NOT NULL THEN coalesce(latest.created_at, k.created_at) END,
    nullif(p.next_attempt_at, 'infinity'), last.error_code, last.rail_code,
    coalesce(
      CASE WHEN last.state = 'DISPATCHED' THEN (
        SELECT l.detail ->> 'rail_reference' FROM {cell}.payment_operator_log l
        WHERE l.outbox_id = k.outbox_id AND l.act = 'RESOLVE' AND l.acted_at >= last.created_at
        ORDER BY l.acted_at DESC LIMIT 1) END,
      last.rail_reference, {cell}.last_rail_reference(k.outbox_id)),
    CASE WHEN k.outbox_id IS NOT NULL THEN EXISTS (
      SELECT FROM {cell}.payment_dead_letters d
      WHERE d.outbox_id = k.outbox_id AND d.status NOT IN ('manual_replay', 'resolved')) END
  FROM unnest(outbox_ids) WITH ORDINALITY AS asked(outbox_id, n)
  LEFT JOIN LATERAL (
    SELECT o.outbox_id, o.sequence_id, o.created_at
    FROM {cell}.payment_outbox_keys o WHERE o.outbox_id = asked.outbox_id LIMIT 1) k ON true
  LEFT JOIN LATERAL (
    SELECT w.next_attempt_at FROM {cell}.payment_outbox_pending w WHERE w.outbox_id = k.outbox_id LIMIT 1) p ON true
  LEFT JOIN LATERAL (
    SELECT a.attempt_no, a.created_at FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = k.outbox_id ORDER BY a.attempt_no DESC LIMIT 1) latest ON true
  LEFT JOIN LATERAL (
    SELECT a.state, a.created_at, a.error_code, a.rail_code, a.rail_reference FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = k.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) last ON true
  ORDER BY asked.n;
END
$$;
-- end of status_of_payments

-- function payment_status_batch
CREATE OR REPLACE FUNCTION {cell}.payment_status_batch(instruction_ids text[], idempotency_keys text[])
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  logins text[] := {cell}.logins_sharing_a_role(session_user);
BEGIN
  IF cardinality(instruction_ids) IS DISTINCT FROM cardinality(idempotency_keys) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'instruction_ids and idempotency_keys differ in length',
      HINT = 'Give as many keys as ids, in the same order.';
  END IF;
  IF cardinality(instruction_ids) > 1000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('%s pairs are more than 1000',
      cardinality(instruction_ids)),
      HINT = 'Ask about fewer at once.';
  END IF;
  RETURN QUERY
  SELECT s.item, s.outbox_id, s.sequence_id, s.created_at, s.state, s.certainty, s.attempts, s.changed_at,
    s.next_attempt_at, s.error_code, s.rail_code, s.rail_reference, s.waits_for_person
  FROM {cell}.status_of_payments(ARRAY(
    SELECT k.outbox_id
    FROM unnest(instruction_ids, idempotency_keys) WITH ORDINALITY AS asked(instruction_id, idempotency_key, n)
    LEFT JOIN LATERAL (
      SELECT o.outbox_id
      FROM {cell}.payment_outbox_keys o
      WHERE o.instruction_id = asked.instruction_id COLLATE "C"
        AND o.idempotency_key = asked.idempotency_key COLLATE "C"
        AND o.enqueued_by = ANY (logins)
      LIMIT 1) k ON true
    ORDER BY asked.n)) s
  ORDER BY s.item;
END
$$;
-- end of payment_status_batch

-- function payment_status
CREATE OR REPLACE FUNCTION {cell}.payment_status(instruction_id text, idempotency_key text)
RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT s.outbox_id, s.sequence_id, s.created_at, s.state, s.certainty, s.attempts, s.changed_at, s.next_attempt_at,
    s.error_code, s.rail_code, s.rail_reference, s.waits_for_person
  FROM {cell}.payment_status_batch(ARRAY[$1], ARRAY[$2]) s
  WHERE s.outbox_id IS NOT NULL
$$;
-- end of payment_status

-- function payment_trace
CREATE OR REPLACE FUNCTION {cell}.payment_trace(outbox_id uuid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object('traceparent', h.headers -> 'traceparent', 'tracestate',
    h.headers -> 'tracestate'))::text
  FROM (
    (SELECT p.headers
     FROM {cell}.payment_outbox_pending p
     WHERE p.outbox_id = $1 AND p.headers IS NOT NULL)
    UNION ALL
    (SELECT i.headers
     FROM {cell}.payment_outbox_instructions i
     WHERE i.outbox_id = $1)
    UNION ALL
    (SELECT a.headers
     FROM {cell}.payment_outbox_attempts a
     WHERE a.outbox_id = $1 AND a.headers IS NOT NULL
     ORDER BY a.attempt_no DESC
     LIMIT 1)
    LIMIT 1) h
$$;
-- end of payment_trace

-- Views for operators: one row for each instruction, and counts of pending instructions. The counts
-- have an upper bound, so that a large backlog does not make a view slow.

-- view supervisor_outbox_status
CREATE OR REPLACE VIEW {cell}.supervisor_outbox_status AS
SELECT
  k.outbox_id,
  k.instruction_id,
  k.participant_id,
  k.sequence_id,
  coalesce(p.rail_type, a.rail_type)                        AS rail_type,
  CASE
    WHEN d.reason = 'CONFLICT' AND d.status NOT IN ('manual_replay', 'resolved') THEN 'CONFLICT'
    WHEN p.provisional THEN 'ACCEPTED'
    WHEN p.outcome_unknown THEN 'UNKNOWN'
    WHEN p.outbox_id IS NOT NULL THEN 'PENDING'
    ELSE s.state::text
  END                                                       AS state,
  k.created_at                                              AS enqueued_at,
  clock_timestamp() - k.created_at                          AS age,
  coalesce(a.attempt_no, 0)                                 AS attempts,
  a.state::text                                             AS last_attempt_state,
  a.created_at                                              AS last_attempt_at,
  a.error_code                                              AS last_error_code,
  a.error_message                                           AS last_error_message,
  coalesce(p.outcome_unknown, a.outcome_unknown, false)     AS outcome_unknown,
  p.next_attempt_at,
  p.next_action,
  p.priority,
  p.expires_at,
  d.reason                                                  AS dead_letter_reason,
  d.status                                                  AS dead_letter_status
FROM {cell}.payment_outbox_keys k
LEFT JOIN {cell}.payment_outbox_pending p ON p.outbox_id = k.outbox_id
LEFT JOIN LATERAL (
  SELECT t.attempt_no, t.state, t.rail_type, t.created_at, t.error_code, t.error_message, t.outcome_unknown
  FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = k.outbox_id
  ORDER BY t.attempt_no DESC
  LIMIT 1) a ON true
LEFT JOIN LATERAL (
  SELECT t.state
  FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = k.outbox_id AND t.state <> 'LATE_OUTCOME'
  ORDER BY t.attempt_no DESC
  LIMIT 1) s ON true
LEFT JOIN {cell}.payment_dead_letters d ON d.outbox_id = k.outbox_id;
COMMENT ON VIEW {cell}.supervisor_outbox_status IS
  'One row for each instruction: its state, age, attempts and last error. The view runs with its owner''s rights, '
  'so that a reader needs no privilege on the tables.';
-- end of supervisor_outbox_status

-- view v_outbox_backlog
CREATE OR REPLACE VIEW {cell}.v_outbox_backlog AS
SELECT w.rail_type, w.state, count(*) AS count, max(w.waiting) >= 100000 AS at_least,
  min(w.enqueued_at) AS oldest_enqueued_at, clock_timestamp() - min(w.enqueued_at) AS oldest_age,
    min(w.due_at) AS next_due_at
FROM (
  SELECT r.rail_type, p.created_at AS enqueued_at, nullif(p.next_attempt_at, 'infinity') AS due_at,
    count(*) OVER (PARTITION BY r.rail_type) AS waiting,
    CASE
      WHEN p.next_attempt_at = 'infinity' THEN 'UNCLAIMABLE'
      WHEN p.provisional THEN 'ACCEPTED'
      WHEN p.outcome_unknown THEN 'UNKNOWN'
      WHEN p.attempt_count > 0 THEN 'RETRYABLE'
      ELSE 'PENDING'
    END AS state
  FROM {cell}.payment_rails r
  CROSS JOIN LATERAL (
    SELECT q.created_at, q.next_attempt_at, q.provisional, q.outcome_unknown, q.attempt_count
    FROM {cell}.payment_outbox_pending q
    WHERE q.rail_type = r.rail_type
    LIMIT 100000) p
  UNION ALL
  SELECT a.rail_type, a.enqueued_at, NULL, 1, a.state::text
  FROM (
    SELECT m.outbox_id, m.attempt_no
    FROM {cell}.payment_outbox_claims c
    CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
    ORDER BY c.claimed_at
    LIMIT 20000) f
  CROSS JOIN LATERAL (
    SELECT t.rail_type, t.enqueued_at, t.state
    FROM {cell}.payment_outbox_attempts t
    WHERE t.outbox_id = f.outbox_id AND t.attempt_no = f.attempt_no
    LIMIT 1) a
  WHERE (SELECT true FROM {cell}.payment_outbox_attempts z WHERE z.outbox_id = f.outbox_id AND z.attempt_no > f.attempt_no AND z.state <> 'LATE_OUTCOME' LIMIT 1) IS NULL) w
GROUP BY w.rail_type, w.state;
COMMENT ON VIEW {cell}.v_outbox_backlog IS
  'Instructions that are pending or in flight, by rail and state. PENDING: never sent. RETRYABLE: sent, and '
  'provably not executed. UNKNOWN and ACCEPTED: the rail''s final answer is outstanding. UNCLAIMABLE: quarantined. '
  'DISPATCHING and INQUIRING: claimed and not answered. The view reads at most 100,000 pending rows of each rail '
  '(at_least is then true) and 20,000 claimed ones.';
-- end of v_outbox_backlog

-- view v_dead_letter_summary
CREATE OR REPLACE VIEW {cell}.v_dead_letter_summary AS
SELECT d.reason, d.rail_type, d.status, count(*) AS count,
  min(d.opened_at) AS oldest_opened_at, max(d.opened_at) AS latest_opened_at,
  clock_timestamp() - min(d.opened_at) AS oldest_age
FROM (
  SELECT w.reason, w.rail_type, w.status, w.opened_at
  FROM {cell}.payment_dead_letters w
  WHERE w.status NOT IN ('manual_replay', 'resolved')
  LIMIT 1000000) d
GROUP BY d.reason, d.rail_type, d.status;
COMMENT ON VIEW {cell}.v_dead_letter_summary IS 'Open dead letters by reason, rail and status.';
-- end of v_dead_letter_summary

-- view v_queue_health
CREATE OR REPLACE VIEW {cell}.v_queue_health AS
WITH backlog AS MATERIALIZED (
  SELECT b.rail_type, b.state, b.count, b.at_least
  FROM {cell}.v_outbox_backlog b
),
rail AS MATERIALIZED (
  SELECT r.rail_type, r.paused OR e.paused AS paused,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state NOT IN ('DISPATCHING', 'INQUIRING')), 0)::bigint AS pending,
    coalesce((SELECT bool_or(b.at_least) FROM backlog b WHERE b.rail_type = r.rail_type), false) AS at_least,
    CASE WHEN d.due_at <= clock_timestamp() THEN clock_timestamp() - d.due_at END AS oldest_due_age,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state IN ('DISPATCHING', 'INQUIRING')), 0)::bigint AS in_flight,
    coalesce((SELECT sum(b.count) FROM backlog b
      WHERE b.rail_type = r.rail_type AND b.state IN ('ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN')), 0)::bigint
      + (SELECT count(*)
        FROM (
          SELECT d.outbox_id FROM {cell}.payment_dead_letters d
          WHERE d.rail_type = r.rail_type AND d.reason = 'OUTCOME_UNKNOWN' AND d.status NOT IN ('manual_replay', 'resolved')
          LIMIT 100000) u
        -- An instruction that is pending for an inquiry is counted in the backlog.
        WHERE (SELECT true FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = u.outbox_id
          LIMIT 1) IS NULL) AS outcome_unknown,
    coalesce((SELECT sum(s.count) FROM {cell}.v_dead_letter_summary s WHERE s.rail_type = r.rail_type),
      0)::bigint AS dead_letters
  FROM {cell}.payment_rails r
  CROSS JOIN (SELECT g.paused FROM {cell}.payment_rails g WHERE g.rail_type = '*') e
  CROSS JOIN LATERAL (
    SELECT min(f.next_attempt_at) AS due_at
    FROM (VALUES (0::smallint), (1), (2)) AS v(priority)
    CROSS JOIN LATERAL (
      SELECT p.next_attempt_at
      FROM {cell}.payment_outbox_pending p
      WHERE p.rail_type = r.rail_type AND p.priority = v.priority
      ORDER BY p.next_attempt_at
      LIMIT 1) f) d
  WHERE r.rail_type <> '*'
),
component AS MATERIALIZED (
  SELECT h.name, h.kind, h.host, h.version, h.started_at, h.last_tick_at, h.clock_offset_ms,
    concat_ws(', ', h.status, nullif(h.activity, '')) AS activity,
    clock_timestamp() - h.last_tick_at AS age,
    CASE
      WHEN h.status = 'stopped' THEN 'stopped'
      WHEN h.last_tick_at <= clock_timestamp() - h.stale_after_ms * interval '1 millisecond' THEN 'stale'
      WHEN h.last_tick_at <= clock_timestamp() - h.stale_after_ms * interval '1 millisecond' / 2 THEN 'warning'
      ELSE 'fresh'
    END AS status
  FROM {cell}.outbox_heartbeats h
  WHERE h.last_tick_at > clock_timestamp() - CASE h.status WHEN 'stopped' THEN interval '1 hour'
    ELSE interval '1 day' END
)
SELECT 'cell' AS scope, '*' AS name,
  CASE WHEN bool_or(r.paused) THEN 'paused' WHEN count(*) = 0 THEN 'no rails' ELSE 'running' END AS status,
  sum(r.pending)::bigint AS pending, bool_or(r.at_least) AS at_least, max(r.oldest_due_age) AS oldest_due_age,
  sum(r.in_flight)::bigint AS in_flight, (SELECT clock_timestamp() - min(c.claimed_at)
    FROM {cell}.payment_outbox_claims c) AS oldest_claim_age,
  sum(r.outcome_unknown)::bigint AS outcome_unknown,
  (SELECT coalesce(sum(s.count), 0) FROM {cell}.v_dead_letter_summary s)::bigint AS dead_letters,
  NULL::text AS kind, NULL::text AS host, NULL::text AS version, NULL::timestamptz AS started_at,
  NULL::timestamptz AS last_beat_at, NULL::interval AS beat_age, NULL::bigint AS clock_offset_ms, NULL::text AS activity
FROM rail r
UNION ALL
SELECT 'rail', r.rail_type, CASE WHEN r.paused THEN 'paused' ELSE 'running' END,
  r.pending, r.at_least, r.oldest_due_age, r.in_flight, NULL, r.outcome_unknown, r.dead_letters,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM rail r
UNION ALL
SELECT 'component', c.name, c.status, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  c.kind, c.host, c.version, c.started_at, c.last_tick_at, c.age, c.clock_offset_ms, c.activity
FROM component c;
COMMENT ON VIEW {cell}.v_queue_health IS
  'The overview for an operator on call: one row for the cell, one for each rail, and one for each component with '
  'a heartbeat in the last day (in the last hour, if it stopped in order). A component is stale after its own '
  'stale_after_ms, and has the status warning after half of it.';
-- end of v_queue_health

-- view v_lanes
CREATE OR REPLACE VIEW {cell}.v_lanes AS
SELECT l.rail_type, h.name AS worker_id, h.host, l.profile_version, l.slots, l.calls, l.breaker,
  CASE WHEN l.open_ms > 0 THEN h.last_tick_at + make_interval(secs => l.open_ms / 1000.0) END AS breaker_open_until,
  l.rate, l.suspended,
  CASE WHEN l.stopped_ms > 0 THEN h.last_tick_at + make_interval(secs => l.stopped_ms / 1000.0) END AS stopped_until,
  h.last_tick_at AS said_at
FROM {cell}.outbox_heartbeats h
CROSS JOIN LATERAL jsonb_to_recordset(h.lanes) AS l (
  rail_type text, profile_version integer, slots integer, calls integer, breaker text, open_ms bigint,
    rate double precision,
  suspended text, stopped_ms bigint)
WHERE h.kind = 'relayer' AND h.status IN ('running', 'suspended')
  AND h.last_tick_at > clock_timestamp() - make_interval(secs => h.stale_after_ms / 1000.0);
COMMENT ON VIEW {cell}.v_lanes IS
  'The rails that each running relayer served at its last heartbeat, and their state. A rail without a row is '
  'served by no relayer.';
-- end of v_lanes

-- The functions of operators. Each requires a reason and writes a row of the operator log.

-- function require_reason
CREATE OR REPLACE FUNCTION {cell}.require_reason(reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF coalesce(btrim(reason), '') = '' OR octet_length(reason) > 2000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a reason of 1 to 2000 bytes is required',
      HINT = 'Give the reason, for the reader of the log.';
  END IF;
END
$$;
-- end of require_reason

-- function require_settled_server
CREATE OR REPLACE FUNCTION {cell}.require_settled_server(act text) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF {cell}.server_is_settled() THEN
    RETURN;
  END IF;
  -- A suspension that was restored from a backup is of another start: nothing has been compared on
  -- this one.
  IF EXISTS (
    SELECT FROM {cell}.payment_outbox_suspensions s
    WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time()
      AND s.timeline = {cell}.server_timeline())
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the database may have forgotten sends (a restore, a failover or a snapshot): %s has to wait until an operator has accepted the server', act),
      HINT = 'Compare with the rails, end what they executed with dead-letter resolve --executed, then: railhead '
        'timeline accept --since TIME --reason WHY, with the time since which lanes are suspended.';
  END IF;
  RAISE EXCEPTION USING ERRCODE = 'RH020',
    MESSAGE = format('no relayer has confirmed that nothing is missing since the server was started or promoted: the database may have forgotten sends, and %s has to wait until one has', act),
    HINT = 'Start a relayer, or wait some seconds until one has checked the server, and repeat this. If lanes are '
      'suspended then, compare with the rails first.';
END
$$;
-- end of require_settled_server

-- function log_operator_act
CREATE OR REPLACE FUNCTION {cell}.log_operator_act(act text, subject text, outbox_id uuid, reason text,
  detail jsonb DEFAULT '{}') RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  INSERT INTO {cell}.payment_operator_log (act, subject, outbox_id, reason, detail) VALUES ($1, $2, $3, $4, $5)
$$;
-- end of log_operator_act

-- function lock_payment
CREATE OR REPLACE FUNCTION {cell}.lock_payment(outbox_id uuid) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  PERFORM FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = lock_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = format('outbox_id %s is not known to this cell',
      lock_payment.outbox_id);
  END IF;
END
$$;
-- end of lock_payment

-- function instruction_of
CREATE OR REPLACE FUNCTION {cell}.instruction_of(outbox_id uuid) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT k.instruction_id FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = $1
$$;
-- end of instruction_of

-- function close_letter
CREATE OR REPLACE FUNCTION {cell}.close_letter(outbox_id uuid, status text, note text) RETURNS void
LANGUAGE sql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  UPDATE {cell}.payment_dead_letters d
  SET status = $2, note = $3, actor = session_user, updated_at = clock_timestamp()
  WHERE d.outbox_id = $1
$$;
-- end of close_letter

-- function set_time_budget
CREATE OR REPLACE FUNCTION {cell}.set_time_budget(changes jsonb, reason text)
RETURNS TABLE (version integer, changed boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  fault text;
  old   {cell}.payment_outbox_settings;
  new   {cell}.payment_outbox_settings;
BEGIN
  PERFORM {cell}.require_reason(set_time_budget.reason);
  IF jsonb_typeof(set_time_budget.changes) IS DISTINCT FROM 'object' OR set_time_budget.changes = '{}' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'no setting is named',
      HINT = 'Name a setting and its value in milliseconds.';
  END IF;
  SELECT string_agg(CASE
      WHEN b.name IS NULL THEN format('%s is not a setting', quote_literal(left(c.key, 40)))
      WHEN jsonb_typeof(c.value) <> 'number' OR c.value::numeric <> trunc(c.value::numeric)
        THEN format('%s is not a whole number of milliseconds', c.key)
      ELSE format('%s is %s ms, must be %s to %s', c.key, left(c.value::text, 40), b.low, b.high) END, '; '
        ORDER BY c.key COLLATE "C")
  INTO fault
  FROM jsonb_each(set_time_budget.changes) c
  LEFT JOIN (VALUES ('claim_timeout', 1000, 3600000), ('start_within', 10, 60000), ('record_within', 10, 60000),
    ('drain', 10, 600000),
    ('heartbeat_stale', 100, 3600000)) AS b (name, low, high) ON b.name = c.key COLLATE "C"
  WHERE b.name IS NULL OR jsonb_typeof(c.value) <> 'number'
    OR CASE WHEN jsonb_typeof(c.value) = 'number' THEN c.value::numeric NOT BETWEEN b.low AND b.high
      OR c.value::numeric <> trunc(c.value::numeric) END;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = fault,
      HINT = 'The settings are claim_timeout, start_within, record_within, drain and heartbeat_stale, in milliseconds.';
  END IF;
  SELECT s.* INTO STRICT old FROM {cell}.payment_outbox_settings s WHERE s.singleton FOR NO KEY UPDATE;
  new := old;
  new.claim_timeout_ms := coalesce((set_time_budget.changes ->> 'claim_timeout')::integer, old.claim_timeout_ms);
  new.start_within_ms := coalesce((set_time_budget.changes ->> 'start_within')::integer, old.start_within_ms);
  new.record_within_ms := coalesce((set_time_budget.changes ->> 'record_within')::integer, old.record_within_ms);
  new.drain_ms := coalesce((set_time_budget.changes ->> 'drain')::integer, old.drain_ms);
  new.heartbeat_stale_ms := coalesce((set_time_budget.changes ->> 'heartbeat_stale')::integer, old.heartbeat_stale_ms);
  version := old.budget_version;
  changed := new IS DISTINCT FROM old;
  IF NOT changed THEN
    RETURN NEXT;
    RETURN;
  END IF;
  IF new.start_within_ms + new.record_within_ms + new.drain_ms >= new.claim_timeout_ms THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = format('start_within %s ms + record_within %s ms + drain %s ms must be less than claim_timeout %s ms',
        new.start_within_ms, new.record_within_ms, new.drain_ms, new.claim_timeout_ms),
      HINT = 'Change them together: railhead settings set NAME VALUE NAME VALUE.';
  END IF;
  UPDATE {cell}.payment_outbox_settings s
  SET claim_timeout_ms = new.claim_timeout_ms, start_within_ms = new.start_within_ms,
    record_within_ms = new.record_within_ms, drain_ms = new.drain_ms, heartbeat_stale_ms = new.heartbeat_stale_ms
  WHERE s.singleton
  RETURNING s.budget_version INTO set_time_budget.version;
  PERFORM {cell}.log_operator_act('SET_TIME_BUDGET', 'version ' || set_time_budget.version, NULL,
    set_time_budget.reason,
    jsonb_build_object('changes', set_time_budget.changes, 'from',
      jsonb_build_object('claim_timeout', old.claim_timeout_ms, 'start_within', old.start_within_ms,
      'record_within', old.record_within_ms, 'drain', old.drain_ms, 'heartbeat_stale', old.heartbeat_stale_ms)));
  RETURN NEXT;
END
$$;
-- end of set_time_budget

-- function require_end
CREATE OR REPLACE FUNCTION {cell}.require_end(until timestamptz) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF until <= clock_timestamp() OR until > clock_timestamp() + interval '366 days' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the end must be in the future, at most 366 days ahead',
      HINT = 'Without an end it lasts until an operator ends it.';
  END IF;
END
$$;
-- end of require_end

-- function pause_rail
CREATE OR REPLACE FUNCTION {cell}.pause_rail(rail_type text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was boolean;
BEGIN
  PERFORM {cell}.require_reason(pause_rail.reason);
  PERFORM {cell}.require_end(pause_rail.until);
  SELECT r.paused INTO was FROM {cell}.payment_rails r WHERE r.rail_type = pause_rail.rail_type FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
      quote_literal(left(pause_rail.rail_type, 64))),
      HINT = 'Use a rail_type of payment_rails, or * for everything.';
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = true, paused_by = CASE WHEN was THEN r.paused_by ELSE session_user END,
    paused_at = CASE WHEN was THEN r.paused_at ELSE clock_timestamp() END,
    pause_reason = CASE WHEN was THEN r.pause_reason ELSE left(pause_rail.reason, 500) END,
    paused_until = CASE
      WHEN NOT was OR r.paused_until < pause_rail.until OR pause_rail.until IS NULL THEN pause_rail.until
      ELSE r.paused_until END,
    updated_at = clock_timestamp()
  WHERE r.rail_type = pause_rail.rail_type;
  PERFORM {cell}.log_operator_act('PAUSE_RAIL', pause_rail.rail_type, NULL, pause_rail.reason,
    jsonb_strip_nulls(jsonb_build_object('until', pause_rail.until)));
  RETURN NOT was;
END
$$;
-- end of pause_rail

-- function resume_rail
CREATE OR REPLACE FUNCTION {cell}.resume_rail(rail_type text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was boolean;
BEGIN
  PERFORM {cell}.require_reason(resume_rail.reason);
  SELECT r.paused INTO was FROM {cell}.payment_rails r WHERE r.rail_type = resume_rail.rail_type FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
      quote_literal(left(resume_rail.rail_type, 64))),
      HINT = 'Use a rail_type of payment_rails, or * for everything.';
  END IF;
  UPDATE {cell}.payment_rails r
  SET paused = false, auto_paused = false, paused_by = NULL, paused_at = NULL, pause_reason = NULL,
    paused_until = NULL, updated_at = clock_timestamp()
  WHERE r.rail_type = resume_rail.rail_type;
  PERFORM {cell}.log_operator_act('RESUME_RAIL', resume_rail.rail_type, NULL, resume_rail.reason);
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  RETURN was;
END
$$;
-- end of resume_rail

-- function pause_participant
CREATE OR REPLACE FUNCTION {cell}.pause_participant(participant_id text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  paused boolean;
BEGIN
  PERFORM {cell}.require_reason(pause_participant.reason);
  PERFORM {cell}.require_end(pause_participant.until);
  IF NOT EXISTS (SELECT FROM {cell}.participant_outbox_sequences s
    WHERE s.participant_id = pause_participant.participant_id) THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'this participant has never enqueued anything here',
      HINT = 'Check the participant_id.';
  END IF;
  INSERT INTO {cell}.payment_paused_participants (participant_id, paused_by, pause_reason, paused_until)
  VALUES (pause_participant.participant_id, session_user, left(pause_participant.reason, 500), pause_participant.until)
  ON CONFLICT DO NOTHING;
  paused := FOUND;
  IF NOT paused THEN
    UPDATE {cell}.payment_paused_participants p
    SET paused_until = pause_participant.until
    WHERE p.participant_id = pause_participant.participant_id
      AND (p.paused_until < pause_participant.until OR p.paused_until IS NOT NULL AND pause_participant.until IS NULL);
  END IF;
  PERFORM {cell}.log_operator_act('PAUSE_PARTICIPANT', pause_participant.participant_id, NULL, pause_participant.reason,
    jsonb_strip_nulls(jsonb_build_object('until', pause_participant.until)));
  RETURN paused;
END
$$;
-- end of pause_participant

-- function resume_participant
CREATE OR REPLACE FUNCTION {cell}.resume_participant(participant_id text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  resumed boolean;
BEGIN
  PERFORM {cell}.require_reason(resume_participant.reason);
  DELETE FROM {cell}.payment_paused_participants p WHERE p.participant_id = resume_participant.participant_id;
  resumed := FOUND;
  PERFORM {cell}.log_operator_act('RESUME_PARTICIPANT', resume_participant.participant_id, NULL,
    resume_participant.reason);
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  RETURN resumed;
END
$$;
-- end of resume_participant

-- function require_gate
CREATE OR REPLACE FUNCTION {cell}.require_gate(scope text, name text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF scope = 'cell' AND name = '*' THEN
    RETURN;
  ELSIF scope = 'rail' THEN
    IF NOT EXISTS (SELECT FROM {cell}.payment_rails r WHERE r.rail_type = require_gate.name
      AND r.profile_version IS NOT NULL) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH003', MESSAGE = format('rail %s is not known to this cell',
        coalesce(quote_literal(left(name, 64)), 'NULL')),
        HINT = 'Use a rail_type of payment_rails; the whole cell is scope cell, name *.';
    END IF;
  ELSIF scope = 'participant' THEN
    IF NOT EXISTS (SELECT FROM {cell}.participant_outbox_sequences s WHERE s.participant_id = require_gate.name) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'this participant has never enqueued anything here',
        HINT = 'Check the participant_id.';
    END IF;
  ELSE
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'there is no such gate',
      HINT = 'Scope and name are: rail and a rail_type, participant and a participant_id, or cell and *.';
  END IF;
END
$$;
-- end of require_gate

-- function close_enqueue
CREATE OR REPLACE FUNCTION {cell}.close_enqueue(scope text, name text, reason text, until timestamptz DEFAULT NULL)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  -- This limit keeps the marks of all gates, and so the row of payment_outbox_rules, within one
  -- page.
  participants_max CONSTANT integer := 100;
  was_open boolean;
BEGIN
  PERFORM {cell}.require_reason(close_enqueue.reason);
  PERFORM {cell}.require_end(close_enqueue.until);
  PERFORM {cell}.require_gate(close_enqueue.scope, close_enqueue.name);
  -- This lock serializes calls: whether the gate is closed, and how many are, does not change until
  -- the commit.
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE;
  INSERT INTO {cell}.payment_closed_gates (scope, name, closed_by, close_reason, closed_until)
  VALUES (close_enqueue.scope, close_enqueue.name, session_user, left(close_enqueue.reason, 500), close_enqueue.until)
  ON CONFLICT ON CONSTRAINT payment_closed_gates_pk DO NOTHING;
  was_open := FOUND;
  IF NOT was_open THEN
    UPDATE {cell}.payment_closed_gates g
    SET closed_until = close_enqueue.until
    WHERE g.scope = close_enqueue.scope AND g.name = close_enqueue.name
      AND (g.closed_until < close_enqueue.until OR g.closed_until IS NOT NULL AND close_enqueue.until IS NULL);
  END IF;
  IF (SELECT count(*) FROM {cell}.payment_closed_gates g WHERE g.scope = 'participant') > participants_max THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('enqueue is closed for %s participants already',
      participants_max),
      HINT = 'Close the rail or the whole cell, or open one of them first.';
  END IF;
  PERFORM {cell}.log_operator_act('CLOSE_ENQUEUE', close_enqueue.name, NULL, close_enqueue.reason,
    jsonb_strip_nulls(jsonb_build_object('scope', close_enqueue.scope, 'until', close_enqueue.until)));
  RETURN was_open;
END
$$;
-- end of close_enqueue

-- function open_enqueue
CREATE OR REPLACE FUNCTION {cell}.open_enqueue(scope text, name text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was_closed boolean;
BEGIN
  PERFORM {cell}.require_reason(open_enqueue.reason);
  PERFORM {cell}.require_gate(open_enqueue.scope, open_enqueue.name);
  PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE;
  DELETE FROM {cell}.payment_closed_gates g WHERE g.scope = open_enqueue.scope AND g.name = open_enqueue.name;
  was_closed := FOUND;
  PERFORM {cell}.log_operator_act('OPEN_ENQUEUE', open_enqueue.name, NULL, open_enqueue.reason,
    jsonb_build_object('scope', open_enqueue.scope));
  RETURN was_closed;
END
$$;
-- end of open_enqueue

-- function end_pauses
CREATE OR REPLACE FUNCTION {cell}.end_pauses() RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  ended record;
BEGIN
  FOR ended IN
    SELECT r.rail_type, r.pause_reason FROM {cell}.payment_rails r
    WHERE r.paused AND r.paused_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED
  LOOP
    UPDATE {cell}.payment_rails r
    SET paused = false, auto_paused = false, paused_by = NULL, paused_at = NULL, pause_reason = NULL,
      paused_until = NULL, updated_at = clock_timestamp()
    WHERE r.rail_type = ended.rail_type;
    PERFORM {cell}.log_operator_act('RESUME_RAIL', ended.rail_type,
      NULL, 'the end of the pause has come: ' || left(ended.pause_reason, 490));
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN NEXT CASE ended.rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || ended.rail_type END;
  END LOOP;
  FOR ended IN
    SELECT p.participant_id, p.pause_reason FROM {cell}.payment_paused_participants p
    WHERE p.paused_until <= clock_timestamp()
    FOR UPDATE SKIP LOCKED
  LOOP
    DELETE FROM {cell}.payment_paused_participants p WHERE p.participant_id = ended.participant_id;
    PERFORM {cell}.log_operator_act('RESUME_PARTICIPANT', ended.participant_id, NULL, 'the end of the pause has come: '
      || left(ended.pause_reason, 490));
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN NEXT 'participant ' || ended.participant_id;
  END LOOP;
  IF EXISTS (SELECT FROM {cell}.payment_closed_gates g WHERE g.closed_until <= clock_timestamp()) THEN
    PERFORM FROM {cell}.payment_outbox_rules r WHERE r.singleton FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      FOR ended IN
        DELETE FROM {cell}.payment_closed_gates g WHERE g.closed_until <= clock_timestamp()
        RETURNING g.scope, g.name, g.close_reason
      LOOP
        PERFORM {cell}.log_operator_act('OPEN_ENQUEUE', ended.name, NULL, 'the end of the closing has come: '
          || left(ended.close_reason, 490),
          jsonb_build_object('scope', ended.scope));
        RETURN NEXT 'enqueue for ' || CASE ended.scope WHEN 'cell' THEN 'everything' ELSE ended.scope || ' '
          || ended.name END;
      END LOOP;
    END IF;
  END IF;
END
$$;
-- end of end_pauses

-- function cancel_payment
CREATE OR REPLACE FUNCTION {cell}.cancel_payment(outbox_id uuid, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  waiting {cell}.payment_outbox_pending;
  number  integer;
BEGIN
  PERFORM {cell}.require_reason(cancel_payment.reason);
  PERFORM {cell}.require_settled_server('a cancellation');
  PERFORM {cell}.lock_payment(cancel_payment.outbox_id);
  SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = cancel_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and can''t be cancelled',
        coalesce({cell}.payment_outbox_state(cancel_payment.outbox_id), 'gone from the archive')),
      HINT = 'Only a pending instruction can be cancelled. A claimed one may be on its way to the rail.';
  END IF;
  IF {cell}.put_back_after(cancel_payment.outbox_id) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and was put back in pending: it can''t be cancelled',
        {cell}.put_back_after(cancel_payment.outbox_id)),
      HINT = 'A claim quarantines it. Then close its dead letter, or resolve it if it may have been paid.';
  END IF;
  IF waiting.outcome_unknown THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'some send of the instruction has no trustworthy answer: it may have been paid and can''t be cancelled',
      HINT = 'Wait for the rail''s evidence, or resolve it with evidence of your own once it is parked. payment '
        'reschedule postpones a re-send.';
  END IF;
  DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = cancel_payment.outbox_id;
  number := waiting.attempt_count + 1;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, participant_id, rail_type, attempt_no, state, completed_at, error_message, render_version,
      outcome_unknown, provisional,
     payload, headers, priority, expires_at, enqueued_at, next_attempt_at, next_action,
     first_sent_at, last_sent_at, send_count, inquiry_count)
  VALUES ({cell}.uuidv7(), waiting.outbox_id, waiting.participant_id, waiting.rail_type, number, 'CANCELLED',
    clock_timestamp(), cancel_payment.reason,
    waiting.render_version, false, false, waiting.payload, waiting.headers, waiting.priority, waiting.expires_at,
    waiting.created_at, waiting.next_attempt_at, waiting.next_action, waiting.first_sent_at, waiting.last_sent_at,
    waiting.send_count, waiting.inquiry_count);
  PERFORM {cell}.close_letter(cancel_payment.outbox_id, 'resolved', cancel_payment.reason);
  PERFORM {cell}.notify_outcome(waiting.outbox_id);
  PERFORM {cell}.log_operator_act('CANCEL', {cell}.instruction_of(waiting.outbox_id), waiting.outbox_id,
    cancel_payment.reason);
  RETURN number;
END
$$;
-- end of cancel_payment

-- function reschedule_payment
CREATE OR REPLACE FUNCTION {cell}.reschedule_payment(
  outbox_id uuid, due_at timestamptz, reason text, OUT was_due_at timestamptz, OUT is_due_at timestamptz) RETURNS record
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  waiting {cell}.payment_outbox_pending;
  profile jsonb;
  moment  timestamptz := clock_timestamp();
BEGIN
  PERFORM {cell}.require_reason(reschedule_payment.reason);
  IF reschedule_payment.due_at > moment + interval '366 days' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a due time is at most 366 days ahead',
      HINT = 'To delay instructions for longer, pause their participant or rail.';
  END IF;
  PERFORM {cell}.lock_payment(reschedule_payment.outbox_id);
  SELECT p.* INTO waiting FROM {cell}.payment_outbox_pending p
    WHERE p.outbox_id = reschedule_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only a pending instruction has a due time',
        coalesce({cell}.payment_outbox_state(reschedule_payment.outbox_id), 'gone from the archive')),
      HINT = 'A claimed instruction is in progress. Use payment inquire for a parked one, and dead-letter replay for '
        'one that has failed.';
  END IF;
  IF {cell}.put_back_after(reschedule_payment.outbox_id) IS NOT NULL OR waiting.next_attempt_at = 'infinity' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction could not be claimed and is quarantined: a due time does not change that',
      HINT = 'Correct the cause that its dead letter names, then replay it.';
  END IF;

  moment := greatest(reschedule_payment.due_at, moment);
  IF waiting.next_action = 'INQUIRE' THEN
    SELECT p.profile INTO profile
    FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    WHERE r.rail_type = waiting.rail_type;
    IF coalesce((profile #>> '{inquiry,max}')::integer, 0) = 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('rail %s can''t be asked: the instruction waits for the rail''s callback', waiting.rail_type),
        HINT = 'It is parked at its callback_deadline. A callback before then ends it.';
    END IF;
    moment := greatest(moment, waiting.last_sent_at + coalesce((profile #>> '{inquiry,not_before}')::interval,
      interval '0'));
  END IF;
  IF waiting.next_action = 'SEND' AND moment >= waiting.expires_at THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('it expires at %s and would not be sent', waiting.expires_at),
      HINT = CASE WHEN waiting.expires_at > clock_timestamp() THEN 'Choose an earlier time.'
        ELSE 'The reaper ends it.' END;
  END IF;

  UPDATE {cell}.payment_outbox_pending p SET next_attempt_at = moment WHERE p.outbox_id = reschedule_payment.outbox_id;
  PERFORM {cell}.log_operator_act(CASE WHEN reschedule_payment.due_at IS NULL THEN 'SEND_NOW' ELSE 'RESCHEDULE' END,
    {cell}.instruction_of(waiting.outbox_id), waiting.outbox_id, reschedule_payment.reason,
    jsonb_build_object('from', waiting.next_attempt_at, 'to', moment, 'rows', waiting.attempt_count));
  PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
  was_due_at := waiting.next_attempt_at;
  is_due_at := moment;
END
$$;
-- end of reschedule_payment

-- function triage_dead_letter
CREATE OR REPLACE FUNCTION {cell}.triage_dead_letter(outbox_id uuid, status text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter {cell}.payment_dead_letters;
  ended  text;
  waits  boolean;
  forged boolean;
BEGIN
  PERFORM {cell}.require_reason(triage_dead_letter.reason);
  IF triage_dead_letter.status IS NULL OR triage_dead_letter.status NOT IN ('acknowledged', 'escalated', 'resolved') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'status must be acknowledged, escalated or resolved';
  END IF;
  IF triage_dead_letter.status = 'resolved' THEN
    PERFORM {cell}.require_settled_server('closing a dead letter');
  END IF;
  forged := NOT EXISTS (SELECT FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = triage_dead_letter.outbox_id)
    AND EXISTS (SELECT FROM {cell}.payment_dead_letters d WHERE d.outbox_id = triage_dead_letter.outbox_id);
  IF NOT forged THEN
    PERFORM {cell}.lock_payment(triage_dead_letter.outbox_id);
  END IF;
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = triage_dead_letter.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'the instruction has no dead letter';
  END IF;
  IF letter.status IN ('manual_replay', 'resolved') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = format('the dead letter is already closed (%s)', letter.status);
  END IF;
  IF triage_dead_letter.status = 'resolved' THEN
    -- A worker may be about to return the payment to pending; this waits for it.
    PERFORM FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = triage_dead_letter.outbox_id FOR UPDATE;
    waits := FOUND;
    ended := {cell}.put_back_after(triage_dead_letter.outbox_id);
  END IF;
  IF triage_dead_letter.status = 'resolved' AND NOT coalesce(
    CASE WHEN forged THEN NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_attempts s
      WHERE s.outbox_id = triage_dead_letter.outbox_id AND s.state <> 'PARKED'
        AND (s.state <> 'DISPATCHING' OR NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts answer
          WHERE answer.outbox_id = s.outbox_id AND answer.answers_attempt_no = s.attempt_no
            AND answer.state = 'PARKED' AND answer.result = 'TAMPERED')))
    ELSE CASE letter.reason
      WHEN 'UNCLAIMABLE' THEN ended IN ('DISPATCHED', 'FAILED', 'CANCELLED', 'DISPATCHING', 'INQUIRING')
        -- The row was removed from pending before its first claim.
        OR NOT waits AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = triage_dead_letter.outbox_id)
      WHEN 'TAMPERED' THEN ended = 'DISPATCHED'
      ELSE letter.reason IN ('FAILED', 'EXPIRED') END END, false)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('a dead letter of reason %s can''t be closed without evidence', letter.reason),
      HINT = CASE WHEN forged
        THEN 'The payment was never enqueued here, and by its rows a send of it may have reached the rail. '
        || 'Find out from the rail what became of it, and escalate it: its rows prove nothing.'
      ELSE CASE letter.reason
        WHEN 'UNCLAIMABLE' THEN CASE
          WHEN NOT waits
            THEN 'Its row in pending is missing. Find out from the rail what became of the payment, then resolve it '
              'with that evidence.'
          WHEN ended IS NULL THEN 'It is still pending: replay it, or cancel it if nothing was ever sent.'
          ELSE format('It was put back in pending after row %s, and may have been paid. ', ended)
            || 'Find out from the rail what became of the payment, then resolve it with that evidence, which '
              'removes it from pending.' END
        ELSE 'Find out from the rail what became of the payment, then resolve it with that evidence.' END END;
  END IF;
  IF ended IS NOT NULL OR forged AND triage_dead_letter.status = 'resolved' THEN
    DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = triage_dead_letter.outbox_id;
  END IF;
  PERFORM {cell}.close_letter(triage_dead_letter.outbox_id, triage_dead_letter.status, triage_dead_letter.reason);
  PERFORM {cell}.log_operator_act('TRIAGE', triage_dead_letter.status, triage_dead_letter.outbox_id,
    triage_dead_letter.reason,
    jsonb_strip_nulls(jsonb_build_object('was', letter.status, 'letter', letter.reason, 'put_back_after', ended,
      'never_enqueued', nullif(forged, false))));
  RETURN letter.status;
END
$$;
-- end of triage_dead_letter

-- function inquiry_said_not_executed
CREATE OR REPLACE FUNCTION {cell}.inquiry_said_not_executed(outbox_id uuid, profile jsonb, first_sent_at timestamptz,
  last_sent_at timestamptz) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
#variable_conflict use_column
BEGIN
  RETURN (
    SELECT NOT {cell}.rail_has_seen($1) AND coalesce((
      SELECT answer.result = 'NOT_FOUND' AND rule.proves
        -- If no send is known, its age is not known either.
        AND coalesce($3, told.first_at) IS NOT NULL
        AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts late
          WHERE late.outbox_id = $1 AND late.state = 'LATE_OUTCOME' AND late.attempt_no > answer.answers_attempt_no
            AND late.result IN ('ACCEPTED', 'UNKNOWN', 'EXECUTED'))
        AND answer.completed_at > clock_timestamp() - interval '15 minutes'
        AND answer.claimed_at - greatest($4, told.last_at, {cell}.may_be_forgotten_until($1)) >= rule.age
        -- A negative age comes from a clock that was set back, and does not count.
        AND answer.completed_at >= greatest(first.at, first.forgotten) AND answer.completed_at - first.at < rule.until
      FROM {cell}.payment_outbox_attempts answer
      CROSS JOIN {cell}.forgotten_sends($1) told
      CROSS JOIN LATERAL (
        SELECT f.since AS forgotten,
          least($3, told.first_at, CASE WHEN f.since IS NOT NULL THEN greatest(f.since, 'epoch') END) AS at
        FROM (SELECT {cell}.forgotten_since($1) AS since) f) first
      CROSS JOIN LATERAL (
        -- A version that sets no age accepts no answer as proof.
        SELECT bool_and(coalesce(each.profile #>> '{inquiry,not_found}' = 'NOT_EXECUTED'
            AND each.profile #>> '{inquiry,not_found_age}' <> '' AND each.profile #>> '{inquiry,not_found_until}' <> '',
              false)) AS proves,
          max((each.profile #>> '{inquiry,not_found_age}')::interval) AS age,
          min((each.profile #>> '{inquiry,not_found_until}')::interval) AS until
        FROM (
          SELECT $2 AS profile
          UNION ALL
          SELECT p.profile
          FROM {cell}.payment_outbox_attempts asked
          JOIN {cell}.payment_rail_profiles p ON p.rail_type = asked.rail_type AND p.version >= asked.profile_version
          WHERE asked.outbox_id = $1 AND asked.attempt_no = answer.answers_attempt_no) each) rule
      WHERE answer.outbox_id = $1 AND answer.answers_attempt_no IS NOT NULL AND answer.state <> 'LATE_OUTCOME'
      ORDER BY answer.attempt_no DESC
      LIMIT 1), false));
END
$$;
-- end of inquiry_said_not_executed

-- function replay_payment
CREATE OR REPLACE FUNCTION {cell}.replay_payment(outbox_id uuid, reason text, expires_at timestamptz DEFAULT NULL)
  RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter     {cell}.payment_dead_letters;
  last       {cell}.payment_outbox_attempts;
  whole      record;
  profile    jsonb;
  version    integer; -- the version of the profile
  sends      record;
  told       record; -- reported sends that a restore forgot
  doubted    boolean; -- some send may still be in progress
  key_window interval; -- the shortest one
  known_for interval; -- the longest key window
  sent_under jsonb;
  number     integer;
BEGIN
  PERFORM {cell}.require_reason(replay_payment.reason);
  PERFORM {cell}.require_settled_server('a replay');
  IF replay_payment.expires_at <= clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH006', MESSAGE = 'expires_at is already past',
      HINT = 'Give a later time, or none.';
  END IF;
  PERFORM {cell}.lock_payment(replay_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = replay_payment.outbox_id FOR UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and has no dead letter to replay',
        coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive'));
  END IF;
  -- The operator who closed it may have asked the participant to pay in another way.
  IF letter.status IN ('manual_replay', 'resolved') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and its dead letter is already closed (%s)',
        coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive'), letter.status),
      HINT = 'The participant enqueues the payment again as a new instruction, if it is still wanted and was not made.';
  END IF;

  IF letter.reason = 'UNCLAIMABLE' THEN
    IF {cell}.put_back_after(replay_payment.outbox_id) IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the instruction is %s and was put back in pending: it can''t be replayed',
          {cell}.put_back_after(replay_payment.outbox_id)),
        HINT = 'Close its dead letter, or resolve it if it may have been paid.';
    END IF;
    UPDATE {cell}.payment_outbox_pending p
    SET next_attempt_at = clock_timestamp(), expires_at = coalesce(replay_payment.expires_at, p.expires_at)
    WHERE p.outbox_id = replay_payment.outbox_id
    RETURNING p.attempt_count INTO number;
    IF NOT FOUND THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the instruction is %s and has no row in pending: it can''t be replayed',
          coalesce({cell}.payment_outbox_state(replay_payment.outbox_id), 'gone from the archive')),
        HINT = 'Find out who removed the row. Find out from the rail what became of the payment, then resolve it with '
          'that evidence.';
    END IF;
    PERFORM {cell}.close_letter(replay_payment.outbox_id, 'manual_replay', replay_payment.reason);
    PERFORM {cell}.log_operator_act('REPLAY', letter.instruction_id, replay_payment.outbox_id, replay_payment.reason);
    PERFORM pg_notify('{cell}.outbox_pending', 'new_work');
    RETURN number;
  END IF;

  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = replay_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT a.attempt_no, a.participant_id, a.rail_type, a.payload, a.enqueued_at, a.priority INTO whole
  FROM {cell}.v_outbox_attempts a
  WHERE a.outbox_id = replay_payment.outbox_id AND a.payload IS NOT NULL ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT p.profile, p.version INTO profile, version
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  WHERE r.rail_type = last.rail_type;
  -- The sends that may have reached the rail, whatever their outcome.
  SELECT s.* INTO sends FROM {cell}.known_sends(replay_payment.outbox_id) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends(replay_payment.outbox_id) f;

  IF letter.reason NOT IN ('FAILED', 'EXPIRED') AND NOT (
    letter.reason = 'OUTCOME_UNKNOWN' AND last.state = 'PARKED'
    AND {cell}.inquiry_said_not_executed(replay_payment.outbox_id, profile, sends.first_at, sends.last_at))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('a dead letter of reason %s can''t be replayed: %s', letter.reason,
        CASE letter.reason WHEN 'TAMPERED' THEN 'its payload is not the one that was enqueued'
          ELSE 'the payment may have been made' END),
      HINT = CASE WHEN letter.reason = 'OUTCOME_UNKNOWN'
        AND clock_timestamp() - sends.first_at >= (profile #>> '{inquiry,not_found_until}')::interval
          THEN 'Its first send is older than inquiry.not_found_until of the profile: the rail''s "no such '
            'payment" no longer proves anything. ' ELSE '' END
        || 'Find out from the rail what became of it, then resolve it with that evidence. Only "not executed" may be '
          'replayed after that.';
  END IF;
  IF last.state IS NULL OR last.state NOT IN ('FAILED', 'PARKED') THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s and can''t be replayed',
        coalesce(last.state::text, 'gone from the archive'));
  END IF;
  IF EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id AND a.state = 'DISPATCHED')
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the instruction was DISPATCHED once, and gets no second DISPATCHED row: it can''t be replayed',
      HINT = 'The participant enqueues the payment again as a new instruction.';
  END IF;
  -- A send that became known after the instruction was FAILED, or was resolved as not executed, has
  -- no answer, unless the rail answered for the whole payment. The rail may also have reported the
  -- execution since.
  IF EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id AND a.attempt_no > last.attempt_no AND a.state = 'LATE_OUTCOME'
      AND (a.result = 'EXECUTED' OR (last.result IS DISTINCT FROM 'REFUSED'
        OR last.error_code IS NOT DISTINCT FROM 'RESOLVED')
        AND (a.result IN ('ACCEPTED', 'UNKNOWN', 'IN_PROGRESS') OR a.outcome_unknown AND NOT last.outcome_unknown)))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('what became known after row %s called it %s contradicts that: the payment may have been made',
        last.attempt_no, last.state),
      HINT = 'Find out from the rail. If it was not made, close the dead letter, and the participant enqueues it '
        'again as a new instruction.';
  END IF;
  IF whole.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'no row has the payload any more: it can''t be replayed',
      HINT = 'The participant enqueues the payment again as a new instruction.';
  END IF;
  IF {cell}.payment_outbox_fingerprint(whole.participant_id, whole.rail_type, whole.payload) <> (
    SELECT k.fingerprint FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = replay_payment.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the payload is not the one that was enqueued: it can''t be replayed',
      HINT = 'Find out who changed it. The participant enqueues the payment again as a new instruction.';
  END IF;
  IF sends.n + told.n > 0 AND coalesce(profile ->> 'id_after_refusal', 'NEW') = 'NEW' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('it may have been sent, and rail %s requires a new id for another try, and a replay keeps the old one',
        last.rail_type),
      HINT = 'The participant enqueues the payment again as a new instruction.';
  END IF;

  -- "No such payment" allows a send, but does not answer the earlier sends. Under the same key the
  -- new send takes their place, but only inside the key window. If the rail remembers no keys, the
  -- operator is responsible.
  doubted := last.state = 'PARKED' AND last.outcome_unknown;
  -- The strictest rule of the profiles under which it was sent applies.
  sent_under := coalesce({cell}.rules_of_sends(replay_payment.outbox_id), '[]') || profile;
  SELECT min(w), max(w) INTO key_window, known_for
  FROM (SELECT coalesce((r ->> 'key_window')::interval, '0s') AS w FROM jsonb_array_elements(sent_under) r) r;
  IF doubted AND (SELECT bool_and(coalesce(r ->> 'resend_on_unknown', 'NEVER') = 'SAME_KEY')
    FROM jsonb_array_elements(sent_under) r)
    -- For a send that was made before an acceptance of a timeline, the key may be as old as the
    -- earliest forgotten send (payment.Claim.Weigh).
    AND (
      SELECT f.at <= clock_timestamp() AND f.at > clock_timestamp() - (key_window - least(key_window / 10,
        interval '5 minutes'))
      FROM (SELECT {cell}.key_since(replay_payment.outbox_id, known_for + least(known_for / 10, interval '5 minutes'),
        least(sends.first_at, told.first_at, (
        SELECT min(s.known_until) FROM {cell}.payment_outbox_suspensions s
        WHERE sends.first_at > s.known_until
          AND (s.accepted_at IS NULL OR sends.first_at < s.accepted_at)))) AS at) f) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('its key window is over, or not known: rail %s may no longer remember the key, and pay twice',
        last.rail_type),
      HINT = 'Find out from the rail what became of it, then resolve it with that evidence. Only "not executed" may '
        'be replayed after that.';
  END IF;

  -- The pending row of an ended instruction was put back.
  DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = replay_payment.outbox_id;
  SELECT max(a.attempt_no) + 1 INTO number FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = replay_payment.outbox_id;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, profile_version, error_message, outcome_unknown,
      provisional)
  VALUES ({cell}.uuidv7(), last.outbox_id, last.rail_type, number, 'REPLAYED', clock_timestamp(), version,
    replay_payment.reason, doubted, false);
  INSERT INTO {cell}.payment_outbox_pending
    (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
      headers,
     outcome_unknown, first_sent_at, last_sent_at, render_version)
  SELECT last.outbox_id, whole.participant_id, whole.rail_type, copy.payload, number, clock_timestamp(),
    whole.enqueued_at, whole.priority, replay_payment.expires_at, copy.headers, doubted,
    least(sends.first_at, told.first_at), greatest(sends.last_at, told.last_at), sends.render_version
  FROM {cell}.payment_outbox_attempts copy -- only older rows have a payload of their own
  WHERE copy.outbox_id = replay_payment.outbox_id AND copy.attempt_no = whole.attempt_no;
  PERFORM {cell}.close_letter(replay_payment.outbox_id, 'manual_replay', replay_payment.reason);
  PERFORM {cell}.log_operator_act('REPLAY', {cell}.instruction_of(last.outbox_id), last.outbox_id,
    replay_payment.reason,
    jsonb_build_object('letter', letter.reason, 'attempt_no', number));
  RETURN number;
END
$$;
-- end of replay_payment

-- function pause_of
CREATE OR REPLACE FUNCTION {cell}.pause_of(rail_type text, participant_id text) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT x.what || ' is paused'
  FROM (
    SELECT CASE r.rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || r.rail_type END AS what
    FROM {cell}.payment_rails r
    WHERE r.paused AND r.rail_type IN ('*', $1 COLLATE "C")
    UNION ALL
    SELECT 'participant ' || h.participant_id
    FROM {cell}.payment_paused_participants h
    WHERE h.participant_id = $2 COLLATE "C") x
  LIMIT 1
$$;
-- end of pause_of

-- function inquire_payment
CREATE OR REPLACE FUNCTION {cell}.inquire_payment(outbox_id uuid, reason text) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter {cell}.payment_dead_letters;
  last   {cell}.payment_outbox_attempts;
  whole  record;
  sends  record;
  told   record; -- reported sends that a restore forgot
  paused text;
  number integer;
BEGIN
  PERFORM {cell}.require_reason(inquire_payment.reason);
  PERFORM {cell}.lock_payment(inquire_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = inquire_payment.outbox_id FOR UPDATE;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = inquire_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  IF last.state IS DISTINCT FROM 'PARKED' OR {cell}.payment_certainty(inquire_payment.outbox_id,
    {cell}.server_is_settled()) <> 'OUTCOME_UNKNOWN'
    OR letter.reason IS NULL OR letter.reason NOT IN ('OUTCOME_UNKNOWN', 'TAMPERED') OR letter.status IN ('manual_replay', 'resolved')
    OR EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = inquire_payment.outbox_id)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: only a parked instruction with an unknown outcome can be inquired about',
        coalesce({cell}.payment_outbox_state(inquire_payment.outbox_id), 'gone from the archive')),
      HINT = 'The rail is asked about a pending instruction without an operator, if it answers inquiries. Compare an '
        'ended instruction with the rail''s statement.';
  END IF;
  IF NOT EXISTS (
    SELECT FROM {cell}.payment_rails r
    JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
    WHERE r.rail_type = last.rail_type AND (p.profile #>> '{inquiry,max}')::integer > 0)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('rail %s can''t be asked: its profile allows no inquiry', last.rail_type),
      HINT = 'Find out from the rail what became of the payment, then resolve it with that evidence.';
  END IF;
  paused := {cell}.pause_of(last.rail_type, letter.participant_id);
  IF paused IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('%s: no inquiry would be made', paused),
      HINT = 'Resume it, then ask. To resolve the payment as not executed meanwhile, give evidence and use '
        '--rail-silent.';
  END IF;
  -- The latest row with the content that was enqueued. The last row of an instruction that was
  -- stopped as TAMPERED has other content.
  SELECT a.attempt_no, a.participant_id, a.rail_type, a.payload, a.enqueued_at, a.priority, a.expires_at INTO whole
  FROM {cell}.v_outbox_attempts a
  JOIN {cell}.payment_outbox_keys k ON k.outbox_id = a.outbox_id
  WHERE a.outbox_id = inquire_payment.outbox_id AND a.payload IS NOT NULL
  ORDER BY {cell}.payment_outbox_fingerprint(a.participant_id, a.rail_type, a.payload) = k.fingerprint DESC,
    a.attempt_no DESC
  LIMIT 1;
  IF whole.payload IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020', MESSAGE = 'no row has the payload any more: it can''t be inquired about',
      HINT = 'Find out from the rail what became of the payment, then resolve it with that evidence.';
  END IF;
  SELECT s.* INTO sends FROM {cell}.known_sends(inquire_payment.outbox_id) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends(inquire_payment.outbox_id) f;

  SELECT max(a.attempt_no) + 1 INTO number FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = inquire_payment.outbox_id;
  INSERT INTO {cell}.payment_outbox_attempts
    (attempt_id, outbox_id, rail_type, attempt_no, state, completed_at, error_code, error_message, outcome_unknown,
      provisional)
  VALUES ({cell}.uuidv7(), last.outbox_id, last.rail_type, number, 'UNKNOWN', clock_timestamp(), 'ASKED',
    inquire_payment.reason, true, last.provisional);
  INSERT INTO {cell}.payment_outbox_pending
    (outbox_id, participant_id, rail_type, payload, attempt_count, next_attempt_at, created_at, priority, expires_at,
      headers, next_action, outcome_unknown, provisional,
     first_sent_at, last_sent_at, send_count, inquiry_count, render_version)
  SELECT last.outbox_id, whole.participant_id, whole.rail_type, copy.payload, number, clock_timestamp(),
    whole.enqueued_at, whole.priority, whole.expires_at, copy.headers, 'INQUIRE', true, last.provisional,
    least(sends.first_at, told.first_at), greatest(sends.last_at, told.last_at), sends.n + told.n,
    (SELECT count(*) FROM {cell}.payment_outbox_attempts q WHERE q.outbox_id = inquire_payment.outbox_id
      AND q.state = 'INQUIRING'),
    sends.render_version
  FROM {cell}.payment_outbox_attempts copy -- only older rows have a payload of their own
  WHERE copy.outbox_id = inquire_payment.outbox_id AND copy.attempt_no = whole.attempt_no;
  PERFORM {cell}.log_operator_act('INQUIRE', {cell}.instruction_of(last.outbox_id), last.outbox_id,
    inquire_payment.reason,
    jsonb_build_object('attempt_no', number));
  RETURN number;
END
$$;
-- end of inquire_payment

-- function require_rails_word
CREATE OR REPLACE FUNCTION {cell}.require_rails_word(outbox_id uuid, rail_silent boolean) RETURNS boolean
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  last    {cell}.payment_outbox_attempts;
  asked   {cell}.payment_outbox_attempts;
  profile jsonb;
  letter  text;
  sends   record;
  told    record; -- reported sends that a restore forgot
  due_at  timestamptz; -- the due time of the pending row
BEGIN
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  SELECT p.profile INTO profile
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
  WHERE r.rail_type = coalesce(
    (SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = $1 ORDER BY a.attempt_no LIMIT 1),
    (SELECT w.rail_type FROM {cell}.payment_outbox_pending w WHERE w.outbox_id = $1));
  IF coalesce((profile #>> '{inquiry,max}')::integer, 0) = 0 THEN
    RETURN false;
  END IF;
  SELECT d.reason INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = $1;
  SELECT s.* INTO sends FROM {cell}.known_sends($1) s;
  SELECT f.* INTO told FROM {cell}.forgotten_sends($1) f;
  -- If nothing was sent, or every send was refused, there is nothing to ask, unless the rail has
  -- reported otherwise.
  IF (sends.n + told.n = 0 OR {cell}.payment_certainty($1, {cell}.server_is_settled()) = 'REFUSED')
    AND last.outcome_unknown IS NOT TRUE
    AND letter IS DISTINCT FROM 'CONFLICT' AND NOT {cell}.send_may_be_forgotten($1)
  THEN
    RETURN false;
  END IF;

  -- The latest answer. A reported execution is not superseded by a weaker answer, and counts also
  -- if it was reported for a claim that a restore forgot.
  SELECT a.* INTO asked
  FROM {cell}.payment_outbox_attempts a
  LEFT JOIN {cell}.payment_outbox_attempts q
    ON q.outbox_id = a.outbox_id AND q.attempt_no = a.answers_attempt_no AND q.state = 'INQUIRING'
  WHERE a.outbox_id = $1 AND a.completed_at > clock_timestamp() - interval '15 minutes'
    AND (q.outbox_id IS NOT NULL OR a.answers_attempt_no IS NULL AND a.claimed_at IS NOT NULL AND a.result = 'EXECUTED')
  ORDER BY a.result IS NOT DISTINCT FROM 'EXECUTED' DESC, a.attempt_no DESC
  LIMIT 1;
  IF asked.result = 'EXECUTED' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the rail reported that it executed the payment (row %s): it can''t be resolved as not executed',
        asked.attempt_no),
      HINT = 'Compare with the rail''s statement. If it has the payment, resolve it as executed, with its reference.';
  END IF;
  IF {cell}.inquiry_said_not_executed($1, profile, sends.first_at, sends.last_at) THEN
    RETURN false;
  END IF;
  IF rail_silent IS NOT TRUE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = CASE WHEN asked.attempt_no IS NULL
        THEN 'the rail answers inquiries and was not asked within 15 minutes: the payment can''t be resolved as not '
          'executed without its answer'
        WHEN asked.result = 'NOT_SENT'
        THEN format('the inquiry did not reach the rail (row %s, NOT_SENT): it does not prove that the payment was not executed', asked.attempt_no)
        ELSE format('the rail''s answer to an inquiry (row %s, %s) does not prove that the payment was not executed',
          asked.attempt_no, coalesce(asked.result, 'no result')) END,
      HINT = 'Ask it: railhead payment inquire. If no answer proves anything and your evidence is sufficient without '
        'one, use --rail-silent, which is recorded.';
  END IF;
  SELECT p.next_attempt_at INTO due_at FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = $1;
  IF asked.attempt_no IS NULL AND letter IN ('OUTCOME_UNKNOWN', 'TAMPERED')
    AND {cell}.payment_certainty($1, {cell}.server_is_settled()) = 'OUTCOME_UNKNOWN'
    AND due_at IS DISTINCT FROM 'infinity' -- which is quarantined
    AND (last.state = 'PARKED' OR {cell}.operator_asked($1, last.attempt_no + 1))
    AND {cell}.pause_of(last.rail_type, (SELECT k.participant_id FROM {cell}.payment_outbox_keys k
      WHERE k.outbox_id = $1)) IS NULL
    AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = 'the rail answers inquiries and was not asked within 15 minutes: whether it would answer is not known',
      HINT = CASE WHEN last.state = 'PARKED' THEN 'Ask it: railhead payment inquire.'
        WHEN due_at > clock_timestamp() + interval '15 minutes'
          THEN 'Its inquiry was postponed: railhead payment send-now makes it due.'
        ELSE 'Its inquiry is in progress: check again in a moment, with railhead payment show and railhead status.' END;
  END IF;
  RETURN true;
END
$$;
-- end of require_rails_word

-- function resolve_payment
CREATE OR REPLACE FUNCTION {cell}.resolve_payment(
  outbox_id uuid, executed boolean, rail_reference text, evidence_date date, document text, reason text,
  rail_silent boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  letter  {cell}.payment_dead_letters;
  letter_open boolean;
  pending {cell}.payment_outbox_pending;
  put_back text;
  aside   boolean := false;
  waits   boolean := false;
  out_asked boolean := false; -- it is pending for an inquiry that an operator asked for
  silent  boolean := false;
  against integer; -- the row in which the rail reports otherwise: an execution, or another reference
  lost    boolean; -- it should be pending, and has no pending row
  last    {cell}.payment_outbox_attempts;
  o       {cell}.outbox_outcome;
  verdict text;
  number  integer;
  before  integer;
  reference text COLLATE "C" := btrim(resolve_payment.rail_reference);
  on_rail text COLLATE "C";
  since   timestamptz; -- the time than which the evidence can't be older
  forgot  timestamptz; -- the time until which forgotten sends may have begun
  other   uuid; -- the payment that already has the reference
BEGIN
  PERFORM {cell}.require_reason(resolve_payment.reason);
  IF resolve_payment.executed IS NULL OR coalesce(btrim(resolve_payment.document), '') = ''
    OR resolve_payment.evidence_date IS NULL OR resolve_payment.evidence_date > current_date + 1
    OR resolve_payment.executed AND coalesce(btrim(resolve_payment.rail_reference), '') = ''
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'evidence is incomplete: it needs executed or not, its date, the document, and the rail''s reference '
        'if executed',
      HINT = 'The document names the evidence: a statement, a ticket, a letter.';
  END IF;
  IF octet_length(resolve_payment.rail_reference) > 256 OR octet_length(resolve_payment.document) > 500 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'a rail reference has at most 256 bytes, a document at most 500',
      HINT = 'Name the document, do not quote it.';
  END IF;
  PERFORM {cell}.lock_payment(resolve_payment.outbox_id);
  SELECT d.* INTO letter FROM {cell}.payment_dead_letters d WHERE d.outbox_id = resolve_payment.outbox_id FOR UPDATE;
  SELECT a.* INTO last FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = resolve_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1;
  -- Both are read by one snapshot: a claim deletes the pending row in the statement that appends
  -- its row.
  lost := EXISTS (
    SELECT FROM (
      SELECT a.state FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND a.state <> 'LATE_OUTCOME' ORDER BY a.attempt_no DESC LIMIT 1) l
    WHERE l.state IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED')
      AND NOT EXISTS (SELECT FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id));
  verdict := CASE
    WHEN resolve_payment.executed THEN 'DISPATCHED'
    WHEN last.state = 'CANCELLED' THEN 'CANCELLED'
    ELSE 'FAILED' END;
  SELECT p.* INTO pending FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id FOR UPDATE;
  IF FOUND THEN
    put_back := {cell}.put_back_after(resolve_payment.outbox_id);
    -- outcome_unknown of an older copy of the row is not reliable.
    aside := letter.reason = 'UNCLAIMABLE' AND pending.next_attempt_at = 'infinity'
      AND CASE WHEN put_back IS NULL THEN pending.outcome_unknown
        ELSE put_back IN ('RETRYABLE', 'ZOMBIE_REQUEUE', 'ACCEPTED', 'UNKNOWN', 'REPLAYED', 'LATE_OUTCOME') END;
    out_asked := put_back IS NULL AND {cell}.operator_asked(resolve_payment.outbox_id, last.attempt_no + 1);
    waits := resolve_payment.executed AND coalesce(last.state NOT IN ('DISPATCHING', 'INQUIRING', 'DISPATCHED'), true);
  END IF;
  letter_open := coalesce(letter.status NOT IN ('manual_replay', 'resolved'), false);
  IF NOT coalesce(
    waits OR lost
    OR resolve_payment.executed AND last.state IN ('FAILED', 'CANCELLED')
    OR letter_open AND (aside OR out_asked OR last.state = 'PARKED')
    OR letter_open AND letter.reason = 'CONFLICT' AND last.state IN ('DISPATCHED', 'FAILED', 'CANCELLED'), false)
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the instruction is %s: there is nothing to resolve',
        coalesce({cell}.payment_outbox_state(resolve_payment.outbox_id), 'gone from the archive')),
      HINT = 'Resolve a dead letter with an unknown outcome or a conflict, or, with proof of execution, an '
        'instruction that is pending, FAILED or CANCELLED. Replay or close FAILED and EXPIRED; replay or cancel '
        'UNCLAIMABLE if nothing was sent.';
  END IF;

  SELECT a.attempt_no INTO before FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = resolve_payment.outbox_id AND a.state = 'DISPATCHED';
  IF resolve_payment.executed AND before < last.attempt_no THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('row %s is DISPATCHED and row %s revoked it: an instruction has at most one DISPATCHED row',
        before, last.attempt_no),
      HINT = 'Escalate its dead letter, and neither close nor replay it, so that it is not paid again. Correct the '
        'books outside Railhead.';
  END IF;

  since := {cell}.uuidv7_time(resolve_payment.outbox_id);
  IF NOT resolve_payment.executed THEN
    -- A suspension that was restored from a backup is of another start, and does not concern this
    -- one.
    IF NOT EXISTS (
      SELECT FROM {cell}.payment_outbox_suspensions s
      WHERE s.accepted_at IS NULL AND s.server_started_at = pg_postmaster_start_time()
        AND s.timeline = {cell}.server_timeline())
    THEN
      PERFORM {cell}.require_settled_server('evidence that a payment was not executed');
    END IF;
    forgot := {cell}.may_be_forgotten_until(resolve_payment.outbox_id);
    IF forgot > clock_timestamp() THEN -- a clock was ahead: no evidence has a future date
      forgot := clock_timestamp();
    END IF;
    since := (SELECT greatest(since, forgot, max(s.claimed_at)) FROM {cell}.sends_of(resolve_payment.outbox_id) s);
  END IF;
  IF resolve_payment.evidence_date < ((since - interval '12 hours') AT TIME ZONE 'UTC')::date THEN
    RAISE EXCEPTION USING ERRCODE = 'RH020',
      MESSAGE = format('the evidence is dated %s, and %s %s: it can''t cover that', resolve_payment.evidence_date,
        CASE WHEN resolve_payment.executed THEN 'the payment was enqueued at' WHEN since = forgot
          THEN 'a send that the database has forgotten may have begun as late as'
          ELSE 'the last send began at' END, date_trunc('second', since)),
      HINT = 'Give the date of the statement or the answer, not of the order. Find out from the rail what has become '
        'of the payment since.';
  END IF;
  IF resolve_payment.executed THEN
    on_rail := coalesce(last.rail_type, pending.rail_type,
      (SELECT k.rail_type FROM {cell}.payment_outbox_attempts k WHERE k.outbox_id = resolve_payment.outbox_id LIMIT 1));
    -- If two operators use one statement, the second sees the row of the first.
    PERFORM pg_advisory_xact_lock(hashtextextended('{cell}.reference ' || on_rail || ' ' || reference, 0));
    SELECT a.outbox_id INTO other FROM {cell}.payment_outbox_attempts a
    WHERE a.rail_reference = reference AND a.outbox_id <> resolve_payment.outbox_id AND a.rail_type = on_rail
      AND (a.state = 'DISPATCHED' OR a.result = 'EXECUTED')
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts own
        WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference)
    LIMIT 1;
    IF other IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = format('the rail''s reference is that of %s, which was executed: it is not evidence of %s', other,
          resolve_payment.outbox_id),
        HINT = 'Check the statement. If the rail gives one reference to several payments, add what distinguishes them '
          'there: REFERENCE/LINE.';
    END IF;
  END IF;

  IF NOT resolve_payment.executed THEN
    silent := {cell}.require_rails_word(resolve_payment.outbox_id, resolve_payment.rail_silent);
    against := (
      SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND (a.result = 'EXECUTED' OR a.state = 'DISPATCHED')
        AND a.error_code IS DISTINCT FROM 'RESOLVED');
  END IF;

  IF resolve_payment.executed THEN
    against := (
      SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id AND (a.result = 'EXECUTED' OR a.state = 'DISPATCHED')
        AND a.error_code IS DISTINCT FROM 'RESOLVED' AND a.rail_reference <> reference AND NOT EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts own
          WHERE own.outbox_id = resolve_payment.outbox_id AND own.rail_reference = reference));
  END IF;
  IF last.state::text IS DISTINCT FROM verdict THEN
    SELECT coalesce(max(a.attempt_no), 0) + 1 INTO number FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = resolve_payment.outbox_id;
    o.outbox_id := resolve_payment.outbox_id;
    o.error_code := 'RESOLVED';
    o.error_message := format('%s%s (%s, %s)', CASE
      WHEN against IS NOT NULL THEN format('against the rail''s word (row %s): ', against)
      WHEN silent THEN 'without the rail''s word: ' END,
      resolve_payment.reason, resolve_payment.document, resolve_payment.evidence_date);
    -- The column holds 2000 bytes, and a character has at most 4. The log has the full text.
    IF octet_length(o.error_message) > 2000 THEN
      o.error_message := left(o.error_message, 500);
    END IF;
    PERFORM {cell}.append_outbox_row(o, {cell}.uuidv7(), number, verdict, NULL, false,
      CASE WHEN resolve_payment.executed THEN 'EXECUTED' ELSE 'REFUSED' END, reference);
  END IF;
  IF aside OR waits OR out_asked OR put_back IS NOT NULL THEN
    DELETE FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = resolve_payment.outbox_id;
  END IF;
  IF verdict <> 'FAILED' THEN
    PERFORM {cell}.close_letter(resolve_payment.outbox_id, 'resolved', resolve_payment.reason);
  ELSE
    PERFORM {cell}.open_dead_letters(ARRAY[resolve_payment.outbox_id], ARRAY['FAILED'], ARRAY['RESOLVED']);
    UPDATE {cell}.payment_dead_letters d
    SET reason = 'FAILED', error_code = 'RESOLVED', status = 'acknowledged', note = resolve_payment.reason,
      actor = session_user, updated_at = clock_timestamp()
    WHERE d.outbox_id = resolve_payment.outbox_id;
  END IF;
  PERFORM {cell}.log_operator_act('RESOLVE', {cell}.instruction_of(resolve_payment.outbox_id),
    resolve_payment.outbox_id, resolve_payment.reason,
    jsonb_build_object('executed', resolve_payment.executed, 'rail_reference', reference,
      'evidence_date', resolve_payment.evidence_date, 'document', resolve_payment.document, 'rail_silent', silent,
        'against_row', against,
      'letter', letter.reason, 'was', last.state));
  RETURN verdict;
END
$$;
-- end of resolve_payment

-- function schema_version
CREATE OR REPLACE FUNCTION {cell}.schema_version() RETURNS text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
  SELECT 'migration 13, serves 13'
$$;
-- end of schema_version

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

-- function partition_holds
CREATE OR REPLACE FUNCTION {cell}.partition_holds(partition oid, id uuid) RETURNS boolean
LANGUAGE plpgsql STABLE STRICT
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
  bound text[] := regexp_match(
    (SELECT pg_get_expr(c.relpartbound, c.oid) FROM pg_class c WHERE c.oid = partition),
    'FROM [(]''([0-9a-f-]{36})''[)] TO [(]''([0-9a-f-]{36})''[)]');
BEGIN
  RETURN coalesce(id >= bound[1]::uuid AND id < bound[2]::uuid, false);
END
$$;
-- end of partition_holds

-- function attach_attempt_partition
CREATE OR REPLACE FUNCTION {cell}.attach_attempt_partition(stem text, name text, from_month timestamptz,
  to_month timestamptz) RETURNS void
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  EXECUTE format('CREATE TABLE IF NOT EXISTS {cell}.%I (LIKE {cell}.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', name,
    stem);
  EXECUTE format('REVOKE ALL ON TYPE {cell}.%I FROM PUBLIC', name);
  EXECUTE format('ALTER TABLE {cell}.%I ATTACH PARTITION {cell}.%I ', stem, name)
    || CASE WHEN from_month IS NULL THEN 'DEFAULT'
       ELSE format('FOR VALUES FROM (%L) TO (%L)', {cell}.uuidv7_floor(from_month), {cell}.uuidv7_floor(to_month)) END;
  EXECUTE format('ALTER TABLE {cell}.%I ENABLE ALWAYS TRIGGER %I', name, stem || '_append_only_rows');
  EXECUTE format(
    'CREATE OR REPLACE TRIGGER %I BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.%I '
    'FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change()', stem || '_append_only', name);
  EXECUTE format('ALTER TABLE {cell}.%I ENABLE ALWAYS TRIGGER %I', name, stem || '_append_only');
  EXECUTE format('ALTER TABLE {cell}.%I SET (autovacuum_vacuum_insert_scale_factor = 0.0, autovacuum_vacuum_insert_threshold = 200000)', name);
END
$$;
-- end of attach_attempt_partition

-- function make_attempt_partitions
CREATE OR REPLACE FUNCTION {cell}.make_attempt_partitions(stem text, months_ahead integer) RETURNS SETOF text
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
SET timezone = 'UTC'
AS $$
DECLARE
  parent     CONSTANT regclass := '{cell}.' || stem;
  remnant    CONSTANT text := stem || '_default';
  this_month CONSTANT timestamptz := date_trunc('month', clock_timestamp());
  -- A later id does not hold a real time: a clock was wrong, or the id was written by hand.
  horizon    CONSTANT timestamptz := this_month + interval '10 years';
  attached   oid;
  month      timestamptz;
  first_used timestamptz;
  last_used  timestamptz;
  holds      text;
BEGIN
  SELECT t.partdefid INTO attached FROM pg_partitioned_table t WHERE t.partrelid = parent;
  IF attached = 0 THEN
    BEGIN
      PERFORM {cell}.attach_attempt_partition(stem, remnant, NULL, NULL);
      attached := to_regclass('{cell}.' || remnant);
      RETURN NEXT remnant;
    EXCEPTION WHEN check_violation THEN
      RAISE WARNING USING MESSAGE = format(
        '%s_default was detached from %s and holds rows of months that have partitions: it is not attached again', stem,
          parent),
        HINT = format('Compare its rows with those of the archive, INSERT INTO %s what is missing there, and rename it; the next run creates another one.', parent);
    END;
  END IF;

  IF attached = to_regclass('{cell}.' || remnant) THEN
    EXECUTE format('SELECT date_trunc(''month'', {cell}.uuidv7_time(r.outbox_id)) FROM {cell}.%I r ORDER BY r.outbox_id LIMIT 1', remnant)
    INTO first_used;
    EXECUTE format('SELECT date_trunc(''month'', {cell}.uuidv7_time(r.outbox_id)) FROM {cell}.%I r ORDER BY r.outbox_id DESC LIMIT 1', remnant)
    INTO last_used;
  END IF;
  IF last_used > horizon THEN
    RAISE WARNING USING MESSAGE = format(
      'the DEFAULT partition of %s holds rows whose outbox_id is of %s, which can''t be the time of an enqueue; it stays as it is', parent, last_used::date);
  ELSIF EXISTS (
    SELECT FROM generate_series(first_used, last_used, interval '1 month') m(month)
    WHERE to_regclass('{cell}.' || stem || '_' || to_char(m.month, '"y"YYYY"m"MM')) IS NOT NULL)
  THEN
    RAISE WARNING USING MESSAGE = format(
      'the DEFAULT partition of %s holds rows from %s to %s, around months that have partitions; it stays as it is',
      parent, first_used::date, last_used::date);
  ELSIF first_used IS NOT NULL THEN
    holds := stem || '_' || to_char(first_used, '"y"YYYY"m"MM') || CASE WHEN first_used < last_used
      THEN to_char(last_used, '"_y"YYYY"m"MM') ELSE '' END;
    EXECUTE format('ALTER TABLE %s DETACH PARTITION {cell}.%I', parent, remnant);
    EXECUTE format('ALTER TABLE {cell}.%I RENAME TO %I', remnant, holds);
    PERFORM {cell}.attach_attempt_partition(stem, holds, first_used, last_used + interval '1 month');
    PERFORM {cell}.attach_attempt_partition(stem, remnant, NULL, NULL);
    RETURN NEXT remnant;
  END IF;

  FOR month IN
    SELECT generate_series(this_month, this_month + make_interval(months => months_ahead), interval '1 month')
  LOOP
    CONTINUE WHEN EXISTS (
      SELECT FROM pg_inherits i
      WHERE i.inhparent = parent
        AND {cell}.partition_holds(i.inhrelid, {cell}.uuidv7_floor(month)));
    BEGIN
      PERFORM {cell}.attach_attempt_partition(stem, stem || '_' || to_char(month, '"y"YYYY"m"MM'), month,
        month + interval '1 month');
      RETURN NEXT stem || '_' || to_char(month, '"y"YYYY"m"MM');
    EXCEPTION WHEN check_violation THEN
      RAISE WARNING USING MESSAGE = format(
        'the DEFAULT partition of %s holds rows of %s, which gets no partition', parent, to_char(month, 'YYYY-MM'));
    END;
  END LOOP;
END
$$;
-- end of make_attempt_partitions

-- function ensure_attempt_partitions
CREATE OR REPLACE FUNCTION {cell}.ensure_attempt_partitions(months_ahead integer DEFAULT 3) RETURNS SETOF text
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '2s'
SET timezone = 'UTC'
AS $$
BEGIN
  IF months_ahead NOT BETWEEN 0 AND 120 THEN
    RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'months_ahead must be 0 to 120';
  END IF;
  PERFORM pg_advisory_xact_lock(hashtext('{cell}.ensure_attempt_partitions'));
  RETURN QUERY SELECT m.name FROM {cell}.make_attempt_partitions('payment_outbox_attempts', months_ahead) AS m(name);
  RETURN QUERY SELECT m.name FROM {cell}.make_attempt_partitions('payment_outbox_instructions', months_ahead)
    AS m(name);
END
$$;
-- end of ensure_attempt_partitions

-- function refuse_without_payload
CREATE OR REPLACE FUNCTION {cell}.refuse_without_payload(outbox_id uuid) RETURNS jsonb
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  RAISE EXCEPTION USING
    ERRCODE = 'RH016',
    MESSAGE = format('payment_outbox_instructions has no row for outbox_id %s', outbox_id),
    HINT = 'It is quarantined. Attach the partition of its month again, then replay it.';
END
$$;
-- end of refuse_without_payload

SELECT {cell}.ensure_attempt_partitions(3);

-- Rows of pending and of the archive in one shape. If a row does not hold the identity of its
-- instruction, it is taken from the registry; payload and headers are taken from
-- payment_outbox_instructions. A copy in the row itself has precedence, so that a changed copy is
-- visible and fails its fingerprint.

-- view v_outbox_pending
CREATE OR REPLACE VIEW {cell}.v_outbox_pending AS
SELECT p.outbox_id, coalesce(p.sequence_id, k.sequence_id) AS sequence_id, p.next_attempt_at, p.created_at,
  p.expires_at, p.first_sent_at, p.last_sent_at, p.attempt_count, p.send_count, p.inquiry_count, p.priority,
  p.outcome_unknown, p.provisional, coalesce(p.instruction_id, k.instruction_id) AS instruction_id, p.participant_id,
  coalesce(p.idempotency_key, k.idempotency_key) AS idempotency_key, p.rail_type, p.next_action, p.render_version,
  coalesce(p.headers,
    (SELECT i.headers FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id)) AS headers,
  coalesce(p.payload,
    (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = p.outbox_id)) AS payload
FROM {cell}.payment_outbox_pending p
LEFT JOIN LATERAL (
  SELECT r.sequence_id, r.instruction_id, r.idempotency_key
  FROM {cell}.payment_outbox_keys r
  WHERE r.outbox_id = p.outbox_id
  LIMIT 1) k ON true;
COMMENT ON VIEW {cell}.v_outbox_pending IS
  'Pending instructions, each with its identity and its order, whatever the age of its row.';
-- end of v_outbox_pending

-- view v_outbox_attempts
CREATE OR REPLACE VIEW {cell}.v_outbox_attempts AS
SELECT a.attempt_id, a.outbox_id, coalesce(a.sequence_id, k.sequence_id) AS sequence_id, a.created_at, a.claimed_at,
  a.completed_at, a.attempt_no, a.state, a.answers_attempt_no, a.latency_ms, a.profile_version, a.outcome_unknown,
  a.provisional, a.priority, a.send_count, a.inquiry_count, a.enqueued_at, a.next_attempt_at, a.expires_at,
  a.first_sent_at, a.last_sent_at, coalesce(a.instruction_id, k.instruction_id) AS instruction_id,
  coalesce(a.participant_id, k.participant_id) AS participant_id,
  coalesce(a.idempotency_key, k.idempotency_key) AS idempotency_key,
  a.rail_type, a.result, a.rail_reference, a.rail_code, a.code_table, a.error_code, a.error_message, a.worker_id,
  a.actor, a.render_version, a.next_action,
  coalesce(a.headers, CASE WHEN a.enqueued_at IS NOT NULL THEN
    (SELECT i.headers FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = a.outbox_id) END) AS headers,
  coalesce(a.payload, CASE WHEN a.enqueued_at IS NOT NULL THEN
    (SELECT i.payload FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = a.outbox_id) END) AS payload,
  a.xact
FROM {cell}.payment_outbox_attempts a
LEFT JOIN LATERAL (
  SELECT r.sequence_id, r.instruction_id, r.participant_id, r.idempotency_key
  FROM {cell}.payment_outbox_keys r
  WHERE r.outbox_id = a.outbox_id
  LIMIT 1) k ON true;
COMMENT ON VIEW {cell}.v_outbox_attempts IS
  'The rows of the archive, whatever their age, each with the identity of its instruction. Rows that took it out '
  'of pending have its order too.';
-- end of v_outbox_attempts

-- Access of callers over HTTP. A call shows a token, and reaches the participants of that token
-- alone. The database holds a digest of the digest of a token.

CREATE TABLE {cell}.payment_api_tokens (
  token_digest        bytea       NOT NULL,
  created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at          timestamptz NOT NULL,
  revoked_at          timestamptz,
  requests_per_minute integer,
  token_id            text COLLATE "C" NOT NULL,
  name                text COLLATE "C" NOT NULL,
  participants        text[] COLLATE "C" NOT NULL,
  verbs               text[] COLLATE "C" NOT NULL,
  certificate_sha256  bytea,
  created_by          text COLLATE "C" NOT NULL DEFAULT session_user,
  CONSTRAINT payment_api_tokens_pk PRIMARY KEY (token_digest),
  CONSTRAINT payment_api_tokens_digest CHECK (octet_length(token_digest) = 32),
  CONSTRAINT payment_api_tokens_id CHECK (token_id = left(encode(token_digest, 'hex'), 16)),
  CONSTRAINT payment_api_tokens_name CHECK (length(name) BETWEEN 1 AND 128 AND name !~ '[^ -~]' AND name = btrim(name)),
  CONSTRAINT payment_api_tokens_participants CHECK (
    cardinality(participants) BETWEEN 1 AND 1000 AND array_position(participants, NULL) IS NULL),
  CONSTRAINT payment_api_tokens_verbs CHECK (
    cardinality(verbs) BETWEEN 1 AND 3 AND verbs <@ ARRAY['ENQUEUE', 'READ', 'CANCEL'] COLLATE "C"
      AND array_position(verbs, NULL) IS NULL),
  CONSTRAINT payment_api_tokens_quota CHECK (requests_per_minute BETWEEN 1 AND 10000000),
  CONSTRAINT payment_api_tokens_expiry CHECK (isfinite(expires_at) AND expires_at <= created_at + interval '400 days'),
  CONSTRAINT payment_api_tokens_certificate CHECK (octet_length(certificate_sha256) = 32)
);
COMMENT ON TABLE {cell}.payment_api_tokens IS
  'Tokens of the HTTP API, with their participants and verbs. Only the owner may read the table. A token that is '
  'no longer in force stays in it.';
COMMENT ON COLUMN {cell}.payment_api_tokens.token_digest IS
  'SHA-256 of the SHA-256 of the token. Functions take the inner digest, so that a copy of this table grants no '
  'access.';
COMMENT ON COLUMN {cell}.payment_api_tokens.token_id IS
  'The first 16 hexadecimal digits of the digest: the public name of the token.';
COMMENT ON COLUMN {cell}.payment_api_tokens.certificate_sha256 IS
  'SHA-256 of the public key (SPKI) of the client certificate to which the token is bound; null if it is bound to '
  'none.';
COMMENT ON COLUMN {cell}.payment_api_tokens.requests_per_minute IS
  'The quota of the token in each API process; null if it has none.';

CREATE TABLE {cell}.payment_api_calls (
  outbox_id       uuid NOT NULL,
  participant_id  text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  token_id        text COLLATE "C" NOT NULL,
  on_behalf_of    text COLLATE "C",
  CONSTRAINT payment_api_calls_pk PRIMARY KEY (outbox_id),
  CONSTRAINT payment_api_calls_once UNIQUE (participant_id, idempotency_key)
);
COMMENT ON TABLE {cell}.payment_api_calls IS
  'One row for each instruction that was enqueued over HTTP: the caller''s own key, of which the registry holds a '
  'digest, and the token of the call.';
COMMENT ON COLUMN {cell}.payment_api_calls.on_behalf_of IS 'The principal behind the call, as the caller named it.';

CREATE TABLE {cell}.payment_api_uses (
  token_id        text COLLATE "C" NOT NULL,
  uses            bigint NOT NULL DEFAULT 0,
  refused         bigint NOT NULL DEFAULT 0,
  last_used_at    timestamptz,
  last_refused_at timestamptz,
  CONSTRAINT payment_api_uses_pk PRIMARY KEY (token_id)
) WITH (fillfactor = 50);
COMMENT ON TABLE {cell}.payment_api_uses IS
  'The number of times that each token was used, and was refused because it was expired or revoked. API processes '
  'add to the counters every few seconds.';

CREATE TRIGGER payment_api_calls_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_api_calls
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_api_calls ENABLE ALWAYS TRIGGER payment_api_calls_append_only;
-- A token can be revoked once. It is not changed otherwise, and never deleted.
-- function keep_api_token
CREATE OR REPLACE FUNCTION {cell}.keep_api_token() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
  IF OLD.revoked_at IS NOT NULL OR NEW.revoked_at IS NULL
    OR to_jsonb(OLD) - 'revoked_at' IS DISTINCT FROM to_jsonb(NEW) - 'revoked_at'
  THEN
    RAISE EXCEPTION USING ERRCODE = 'P0001', MESSAGE = 'a token can only be revoked, not changed: create another one';
  END IF;
  RETURN NEW;
END
$$;
-- end of keep_api_token

CREATE TRIGGER payment_api_tokens_kept
  BEFORE UPDATE ON {cell}.payment_api_tokens
  FOR EACH ROW EXECUTE FUNCTION {cell}.keep_api_token();
ALTER TABLE {cell}.payment_api_tokens ENABLE ALWAYS TRIGGER payment_api_tokens_kept;
CREATE TRIGGER payment_api_tokens_permanent
  BEFORE DELETE OR TRUNCATE ON {cell}.payment_api_tokens
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_api_tokens ENABLE ALWAYS TRIGGER payment_api_tokens_permanent;
CREATE TRIGGER payment_api_uses_no_truncate
  BEFORE TRUNCATE ON {cell}.payment_api_uses
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_api_uses ENABLE ALWAYS TRIGGER payment_api_uses_no_truncate;

-- function api_key_digest
CREATE OR REPLACE FUNCTION {cell}.api_key_digest(participant_id text, idempotency_key text) RETURNS text
LANGUAGE sql STABLE STRICT PARALLEL SAFE
AS $$
  SELECT 'api-' OPERATOR(pg_catalog.||) pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(
    $1 OPERATOR(pg_catalog.||) pg_catalog.chr(31) OPERATOR(pg_catalog.||) $2, 'UTF8')), 'hex')
$$;
-- end of api_key_digest

-- function api_token_refusal
CREATE OR REPLACE FUNCTION {cell}.api_token_refusal(token {cell}.payment_api_tokens, certificate bytea, verb text,
  participant_id text) RETURNS text
LANGUAGE sql VOLATILE
AS $$
  SELECT CASE
    WHEN ($1).token_digest IS NULL OR ($1).revoked_at IS NOT NULL OR ($1).expires_at <= clock_timestamp() THEN 'TOKEN'
    WHEN ($1).certificate_sha256 IS NOT NULL AND ($1).certificate_sha256 IS DISTINCT FROM $2 THEN 'TOKEN'
    WHEN NOT $3 COLLATE "C" = ANY (($1).verbs) THEN 'VERB'
    WHEN $4 IS NULL OR $4 <> '' AND NOT $4 COLLATE "C" = ANY (($1).participants) THEN 'PARTICIPANT'
  END
$$;
-- end of api_token_refusal

-- function require_api_token
CREATE OR REPLACE FUNCTION {cell}.require_api_token(token_sha256 bytea, certificate bytea, verb text,
  participant_id text)
RETURNS {cell}.payment_api_tokens
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  token {cell}.payment_api_tokens;
  why   text;
BEGIN
  SELECT t.* INTO token FROM {cell}.payment_api_tokens t WHERE t.token_digest = sha256(require_api_token.token_sha256);
  why := {cell}.api_token_refusal(token, require_api_token.certificate, require_api_token.verb,
    require_api_token.participant_id);
  IF why = 'TOKEN' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH030', MESSAGE = 'the token is not in force',
      COLUMN = 'token', CONSTRAINT = 'IN_FORCE', HINT = 'Ask for a token: railhead token create.';
  ELSIF why IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH031',
      MESSAGE = CASE why WHEN 'VERB' THEN 'the token is not for this act'
        ELSE 'the token is not for this participant' END,
      COLUMN = 'token', CONSTRAINT = why, HINT = 'Ask for a token that allows it: railhead token create.';
  END IF;
  RETURN token;
END
$$;
-- end of require_api_token

-- function require_api_payment
CREATE OR REPLACE FUNCTION {cell}.require_api_payment(token_sha256 bytea, certificate bytea, verb text, outbox_id uuid)
RETURNS {cell}.payment_api_tokens
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  token {cell}.payment_api_tokens := {cell}.require_api_token(token_sha256, certificate, verb, '');
BEGIN
  IF NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_keys k
    WHERE k.outbox_id = require_api_payment.outbox_id AND k.participant_id = ANY (token.participants))
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such instruction',
      HINT = 'Check the id, and that the token is for its participant.';
  END IF;
  RETURN token;
END
$$;
-- end of require_api_payment

-- function api_token
CREATE OR REPLACE FUNCTION {cell}.api_token(token_sha256 bytea)
RETURNS TABLE (token_id text, name text, participants text[], verbs text[], expires_at timestamptz,
  requests_per_minute integer, certificate_sha256 bytea, in_force boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT t.token_id, t.name, t.participants, t.verbs, t.expires_at, t.requests_per_minute, t.certificate_sha256,
    {cell}.api_token_refusal(t, t.certificate_sha256, NULL, '') IS NULL
  FROM {cell}.payment_api_tokens t
  WHERE t.token_digest = sha256($1)
$$;
-- end of api_token

-- function api_enqueue
CREATE OR REPLACE FUNCTION {cell}.api_enqueue(
  tokens bytea[], certificates bytea[], instruction_ids text[], participant_ids text[], idempotency_keys text[],
    rail_types text[], payloads jsonb[],
  not_befores timestamptz[], expires_ats timestamptz[], priorities integer[], headers jsonb[], send_onces boolean[],
    principals text[], waits boolean DEFAULT false)
RETURNS TABLE (item integer, outbox_id uuid, sequence_id bigint, created_at timestamptz, state text,
  replayed boolean, error_code text, error_message text, error_hint text, differs text[], error_field text,
    error_rule text, error_detail text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET enable_nestloop = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  n         CONSTANT integer := cardinality(tokens);
  token     {cell}.payment_api_tokens; -- of a single item
  token_ids text[];    -- of each item whose token is known
  faults    jsonb[];   -- of each item that is refused here
  refused   boolean;   -- whether there are such items
  digests   text[];    -- what the registry stores in place of each key
  places    integer[]; -- the original position of each item that is not refused
  fresh     integer[] := '{}'; -- the items that this call enqueues
  fresh_ids uuid[] := '{}';    -- their outbox_ids
  kept      integer;
BEGIN
  IF (SELECT s.allow_second_key FROM {cell}.payment_outbox_settings s WHERE s.singleton) IS NOT FALSE THEN
    RAISE EXCEPTION USING ERRCODE = 'RH032',
      MESSAGE = 'the cell allows second keys and therefore accepts nothing over HTTP',
      HINT = 'A key by SQL and the same key over HTTP would be two payments: set '
        'payment_outbox_settings.allow_second_key to false.';
  END IF;
  IF (n = ALL (ARRAY[cardinality(certificates), cardinality(instruction_ids), cardinality(participant_ids),
    cardinality(idempotency_keys),
    cardinality(rail_types), cardinality(payloads), cardinality(not_befores), cardinality(expires_ats),
    cardinality(priorities), cardinality(headers), cardinality(send_onces), cardinality(principals)])) IS NOT TRUE
  THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'the arrays of a batch must not be null, and must have the same length';
  END IF;
  IF n = 0 THEN
    RETURN;
  END IF;

  -- An item that is refused here, or whose key is known, takes the path for many items, which
  -- reports the reason.
  IF n = 1 AND waits THEN
    SELECT t.* INTO token FROM {cell}.payment_api_tokens t WHERE t.token_digest = sha256(tokens[1]);
    IF {cell}.api_token_refusal(token, certificates[1], 'ENQUEUE', participant_ids[1]) IS NULL
      AND idempotency_keys[1] ~ '^[!-~]([ -~]{0,126}[!-~])?$'
        AND coalesce(principals[1] ~ '^[!-~]([ -~]{0,126}[!-~])?$', true)
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_api_calls c
        WHERE c.participant_id = participant_ids[1] COLLATE "C" AND c.idempotency_key = idempotency_keys[1] COLLATE "C")
    THEN
      item := 1;
      BEGIN
        SELECT e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.differs
        INTO STRICT outbox_id, sequence_id, created_at, state, replayed, differs
        FROM {cell}.enqueue_payment_outbox(instruction_ids[1], participant_ids[1],
          {cell}.api_key_digest(participant_ids[1], idempotency_keys[1]),
          rail_types[1], payloads[1], not_befores[1], expires_ats[1], priorities[1], headers[1], send_onces[1]) e;
        -- this transaction has locked the participant's row: a row that is there was committed by another
        IF NOT replayed THEN
          INSERT INTO {cell}.payment_api_calls (outbox_id, participant_id, idempotency_key, token_id, on_behalf_of)
          VALUES (outbox_id, participant_ids[1], idempotency_keys[1], token.token_id, principals[1])
          ON CONFLICT DO NOTHING;
          IF NOT FOUND THEN
            RAISE EXCEPTION USING ERRCODE = '40001',
              MESSAGE = 'a key of this call was used for another instruction meanwhile',
                HINT = 'Retry the transaction.';
          END IF;
        END IF;
      EXCEPTION WHEN OTHERS THEN
        IF SQLSTATE NOT LIKE 'RH%' THEN
          RAISE;
        END IF;
        GET STACKED DIAGNOSTICS error_code = RETURNED_SQLSTATE, error_message = MESSAGE_TEXT,
          error_hint = PG_EXCEPTION_HINT, error_field = COLUMN_NAME, error_rule = CONSTRAINT_NAME,
          error_detail = PG_EXCEPTION_DETAIL;
        SELECT NULL, NULL, NULL, NULL, NULL, NULL INTO outbox_id, sequence_id, created_at, state, replayed, differs;
      END;
      RETURN NEXT;
      RETURN;
    END IF;
  END IF;

  -- Each token is looked up once, and its participants are unpacked once, for all of its items.
  WITH shown AS MATERIALIZED (
    SELECT d.token, t.token_id, t.row
    FROM (SELECT DISTINCT a.token FROM unnest(tokens) AS a(token)) d
    CROSS JOIN LATERAL (
      SELECT t.token_id, t AS row FROM {cell}.payment_api_tokens t WHERE t.token_digest = sha256(d.token) LIMIT 1) t
  )
  SELECT array_agg(j.token_id), array_agg(j.fault),
    array_agg({cell}.api_key_digest(j.participant_id, j.idempotency_key)), bool_or(j.fault IS NOT NULL)
  INTO token_ids, faults, digests, refused
  FROM (
    SELECT a.token_id, a.participant_id, a.idempotency_key, coalesce(a.fault,
      CASE WHEN known.instruction_id <> a.instruction_id OR a.first_instruction <> a.instruction_id THEN
        jsonb_build_object('code', 'RH001', 'message', 'this idempotency_key was first used for another instruction_id',
          'hint', 'Repeat a call with exactly the content of the first one. A different payment needs its own idempotency_key.',
          'field', 'idempotency_key', 'rule', 'SAME_CONTENT',
          'detail', 'The first instruction is outbox_id ' || known.outbox_id || '.') END) AS fault
    FROM (
      -- A refused item does not use its key: a caller without a right to it may have sent it.
      SELECT a.*, first_value(a.instruction_id) OVER (PARTITION BY a.participant_id,
        a.idempotency_key, a.fault IS NULL ORDER BY a.item) AS first_instruction
      FROM (
        SELECT a.item, a.instruction_id, a.participant_id, a.idempotency_key, a.token_id,
          CASE
            WHEN a.why = 'TOKEN' THEN jsonb_build_object('code', 'RH030', 'message', 'the token is not in force',
              'hint', 'Ask for a token: railhead token create.', 'field', 'token', 'rule', 'IN_FORCE')
            WHEN a.why IS NOT NULL THEN jsonb_build_object('code', 'RH031',
              'message', CASE a.why WHEN 'VERB' THEN 'the token is not for this act'
                ELSE 'the token is not for this participant' END,
              'hint', 'Ask for a token that allows it: railhead token create.', 'field', 'token', 'rule', a.why)
            WHEN a.idempotency_key IS NULL OR length(a.idempotency_key) NOT BETWEEN 1 AND 128
              OR a.idempotency_key ~ '[^ -~]'
              OR a.idempotency_key <> btrim(a.idempotency_key) THEN
              jsonb_build_object('code', 'RH002', 'message',
                'idempotency_key must be 1 to 128 printable ASCII characters without spaces at its ends',
                'hint', 'See docs/ingest.md for the form of an instruction.', 'field', 'idempotency_key', 'rule',
                'FORM')
            WHEN length(a.principal) NOT BETWEEN 1 AND 128 OR a.principal ~ '[^ -~]'
              OR a.principal <> btrim(a.principal) THEN
              jsonb_build_object('code', 'RH002', 'message',
                'on_behalf_of must be 1 to 128 printable ASCII characters without spaces at its ends',
                'hint', 'Leave it out where the caller acts for itself.', 'field', 'on_behalf_of', 'rule', 'FORM')
          END AS fault
        FROM (
          SELECT a.*, s.token_id, {cell}.api_token_refusal(s.row, a.certificate, 'ENQUEUE', a.participant_id) AS why
          FROM unnest(tokens, certificates, instruction_ids COLLATE "C", participant_ids COLLATE "C",
            idempotency_keys COLLATE "C", principals COLLATE "C")
            WITH ORDINALITY AS a(token, certificate, instruction_id, participant_id, idempotency_key, principal, item)
          LEFT JOIN shown s ON s.token = a.token
          OFFSET 0) a
        OFFSET 0) a) a
    LEFT JOIN LATERAL (
      SELECT c.outbox_id, k.instruction_id
      FROM (
        SELECT c.outbox_id FROM {cell}.payment_api_calls c
        WHERE a.fault IS NULL AND c.participant_id = a.participant_id AND c.idempotency_key = a.idempotency_key
          LIMIT 1) c
      CROSS JOIN LATERAL (
        SELECT k.instruction_id FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = c.outbox_id
          LIMIT 1) k) known ON true
    ORDER BY a.item) j;

  IF refused THEN
    RETURN QUERY
    SELECT f.item::integer, NULL::uuid, NULL::bigint, NULL::timestamptz, NULL::text, NULL::boolean, f.fault ->> 'code',
      f.fault ->> 'message', f.fault ->> 'hint', NULL::text[], f.fault ->> 'field', f.fault ->> 'rule',
      f.fault ->> 'detail'
    FROM unnest(faults) WITH ORDINALITY AS f(fault, item)
    WHERE f.fault IS NOT NULL;
    SELECT array_agg(a.item), array_agg(a.instruction_id), array_agg(a.participant_id), array_agg(a.idempotency_key),
      array_agg(a.rail_type), array_agg(a.payload), array_agg(a.not_before), array_agg(a.expires_at),
      array_agg(a.priority), array_agg(a.headers), array_agg(a.send_once), array_agg(a.principal),
      array_agg(a.token_id), array_agg(a.digest)
    INTO places, instruction_ids, participant_ids, idempotency_keys, rail_types, payloads, not_befores, expires_ats,
      priorities, headers, send_onces, principals, token_ids, digests
    FROM (
      SELECT a.*
      FROM unnest(instruction_ids, participant_ids, idempotency_keys, rail_types, payloads, not_befores, expires_ats,
        priorities, headers,
        send_onces, principals, token_ids, digests, faults) WITH ORDINALITY
        AS a(instruction_id, participant_id, idempotency_key, rail_type, payload, not_before, expires_at, priority,
          headers,
          send_once, principal, token_id, digest, fault, item)
      WHERE a.fault IS NULL
      ORDER BY a.item) a;
    IF places IS NULL THEN
      RETURN;
    END IF;
  END IF;

  FOR item, outbox_id, sequence_id, created_at, state, replayed, error_code, error_message, error_hint, differs,
    error_field, error_rule, error_detail IN
    SELECT e.item, e.outbox_id, e.sequence_id, e.created_at, e.state, e.replayed, e.error_code, e.error_message,
      e.error_hint, e.differs, e.error_field, e.error_rule, e.error_detail
    FROM {cell}.enqueue_payment_outbox_arrays(instruction_ids, participant_ids, digests, rail_types, payloads,
      not_befores, expires_ats, priorities,
      headers, send_onces, api_enqueue.waits) e
  LOOP
    IF NOT replayed THEN
      fresh := fresh || item;
      fresh_ids := fresh_ids || outbox_id;
    END IF;
    item := coalesce(places[item], item);
    RETURN NEXT;
  END LOOP;
  -- This transaction has locked the participants' rows: rows that are there were committed by
  -- others.
  INSERT INTO {cell}.payment_api_calls (outbox_id, participant_id, idempotency_key, token_id, on_behalf_of)
  SELECT f.outbox_id, a.participant_id, a.idempotency_key, a.token_id, a.principal
  FROM unnest(fresh, fresh_ids) AS f(item, outbox_id)
  JOIN unnest(participant_ids, idempotency_keys, token_ids, principals) WITH ORDINALITY
    AS a(participant_id, idempotency_key, token_id, principal, item)
    ON a.item = f.item
  ORDER BY f.item
  ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS kept = ROW_COUNT;
  IF kept <> cardinality(fresh) THEN
    RAISE EXCEPTION USING ERRCODE = '40001',
      MESSAGE = 'a key of this call was used for another instruction meanwhile', HINT = 'Retry the transaction.';
  END IF;
END
$$;
-- end of api_enqueue

-- function api_payments
CREATE OR REPLACE FUNCTION {cell}.api_payments(token_sha256 bytea, certificate bytea, outbox_ids uuid[])
RETURNS TABLE (item integer, outbox_id uuid, instruction_id text, participant_id text, idempotency_key text,
  on_behalf_of text,
  sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  token {cell}.payment_api_tokens := {cell}.require_api_token(token_sha256, certificate, 'READ', '');
  mine  uuid[];
BEGIN
  IF cardinality(outbox_ids) > 1000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('%s ids are more than 1000', cardinality(outbox_ids)),
      HINT = 'Ask about fewer at once.';
  END IF;
  mine := ARRAY(
    SELECT k.outbox_id
    FROM unnest(outbox_ids) WITH ORDINALITY AS asked(outbox_id, n)
    LEFT JOIN LATERAL (
      SELECT o.outbox_id FROM {cell}.payment_outbox_keys o
      WHERE o.outbox_id = asked.outbox_id AND o.participant_id = ANY (token.participants)
      LIMIT 1) k ON true
    ORDER BY asked.n);
  RETURN QUERY
  SELECT s.item, s.outbox_id, k.instruction_id, k.participant_id, coalesce(c.idempotency_key, k.idempotency_key),
    c.on_behalf_of, s.sequence_id, s.created_at, s.state, s.certainty, s.attempts, s.changed_at, s.next_attempt_at,
    s.error_code, s.rail_code, s.rail_reference, s.waits_for_person
  FROM {cell}.status_of_payments(mine) s
  LEFT JOIN LATERAL (
    SELECT o.instruction_id, o.participant_id, o.idempotency_key FROM {cell}.payment_outbox_keys o
    WHERE o.outbox_id = s.outbox_id LIMIT 1) k ON true
  LEFT JOIN LATERAL (
    SELECT o.idempotency_key, o.on_behalf_of FROM {cell}.payment_api_calls o WHERE o.outbox_id = s.outbox_id
      LIMIT 1) c ON true
  ORDER BY s.item;
END
$$;
-- end of api_payments

-- function api_list
CREATE OR REPLACE FUNCTION {cell}.api_list(token_sha256 bytea, certificate bytea, participant_id text, after bigint,
  rows_max integer,
  instruction_id text DEFAULT NULL, idempotency_key text DEFAULT NULL)
RETURNS TABLE (item integer, outbox_id uuid, of_instruction text, of_participant text, own_key text, on_behalf_of text,
  sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  token CONSTANT {cell}.payment_api_tokens := {cell}.require_api_token(token_sha256, certificate, 'READ',
    api_list.participant_id);
  most  CONSTANT integer := least(greatest(coalesce(api_list.rows_max, 100), 1), 200);
  since CONSTANT bigint := coalesce(api_list.after, 0);
  found uuid[];
BEGIN
  IF api_list.participant_id = '' THEN
    RETURN;
  ELSIF api_list.idempotency_key IS NOT NULL THEN
    found := ARRAY(
      SELECT c.outbox_id FROM {cell}.payment_api_calls c
      WHERE c.participant_id = api_list.participant_id COLLATE "C"
        AND c.idempotency_key = api_list.idempotency_key COLLATE "C");
  ELSIF api_list.instruction_id IS NOT NULL THEN
    found := ARRAY(
      SELECT k.outbox_id
      FROM (
        SELECT o.outbox_id, o.participant_id, o.sequence_id FROM {cell}.payment_outbox_keys o
        WHERE o.instruction_id = api_list.instruction_id COLLATE "C" OFFSET 0) k
      WHERE k.participant_id = api_list.participant_id COLLATE "C" AND k.sequence_id > since
      ORDER BY k.sequence_id
      LIMIT most);
  ELSE
    found := ARRAY(
      SELECT o.outbox_id FROM {cell}.payment_outbox_keys o
      WHERE o.participant_id = api_list.participant_id COLLATE "C" AND o.sequence_id > since
      ORDER BY o.sequence_id
      LIMIT most);
  END IF;
  RETURN QUERY
  SELECT p.* FROM {cell}.api_payments(api_list.token_sha256, api_list.certificate, found) p
  WHERE (api_list.instruction_id IS NULL OR p.instruction_id = api_list.instruction_id COLLATE "C")
    AND p.sequence_id > since
  ORDER BY p.item;
END
$$;
-- end of api_list

-- function api_attempts
CREATE OR REPLACE FUNCTION {cell}.api_attempts(token_sha256 bytea, certificate bytea, outbox_id uuid, after integer,
  rows_max integer)
RETURNS TABLE (attempt_no integer, state text, created_at timestamptz, claimed_at timestamptz, completed_at timestamptz,
  answers_attempt_no integer,
  result text, rail_reference text, rail_code text, error_code text, latency_ms integer)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
  PERFORM {cell}.require_api_payment(token_sha256, certificate, 'READ', api_attempts.outbox_id);
  RETURN QUERY
  SELECT a.attempt_no, a.state::text, a.created_at, a.claimed_at, a.completed_at, a.answers_attempt_no, a.result,
    a.rail_reference, a.rail_code, a.error_code, a.latency_ms
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = api_attempts.outbox_id AND a.attempt_no > coalesce(api_attempts.after, 0)
  ORDER BY a.attempt_no
  LIMIT least(greatest(coalesce(api_attempts.rows_max, 100), 1), 200);
END
$$;
-- end of api_attempts

-- function api_cancel
CREATE OR REPLACE FUNCTION {cell}.api_cancel(token_sha256 bytea, certificate bytea, outbox_id uuid, reason text)
  RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  token CONSTANT {cell}.payment_api_tokens := {cell}.require_api_payment(token_sha256, certificate, 'CANCEL',
    api_cancel.outbox_id);
BEGIN
  PERFORM {cell}.require_reason(api_cancel.reason);
  RETURN {cell}.cancel_payment(api_cancel.outbox_id, format('token %s (%s): %s', token.token_id, token.name,
    left(api_cancel.reason, 500)));
END
$$;
-- end of api_cancel

-- function api_note_uses
CREATE OR REPLACE FUNCTION {cell}.api_note_uses(token_sha256s bytea[], uses bigint[], refused bigint[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
BEGIN
  IF cardinality(token_sha256s) > 1000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = 'more than 1000 tokens at once', HINT = 'Note them in parts.';
  END IF;
  INSERT INTO {cell}.payment_api_uses AS u (token_id, uses, refused, last_used_at, last_refused_at)
  SELECT t.token_id, sum(a.uses), sum(a.refused), CASE WHEN sum(a.uses) > 0 THEN clock_timestamp() END,
    CASE WHEN sum(a.refused) > 0 THEN clock_timestamp() END
  FROM unnest($1, $2, $3) AS a(token, uses, refused)
  JOIN {cell}.payment_api_tokens t ON t.token_digest = sha256(a.token)
  WHERE a.uses >= 0 AND a.refused >= 0
  GROUP BY t.token_id
  ORDER BY t.token_id
  ON CONFLICT ON CONSTRAINT payment_api_uses_pk DO UPDATE SET uses = u.uses + excluded.uses,
    refused = u.refused + excluded.refused, last_used_at = coalesce(excluded.last_used_at, u.last_used_at),
    last_refused_at = coalesce(excluded.last_refused_at, u.last_refused_at);
END
$$;
-- end of api_note_uses

-- function beat_api
CREATE OR REPLACE FUNCTION {cell}.beat_api(name text, host text, version text, status text, activity text,
  stale_after_ms bigint, host_clock timestamptz, looked_at timestamptz, vouched boolean)
RETURNS TABLE (beats bigint, budget_version integer, claim_timeout_ms integer, start_within_ms integer,
  record_within_ms integer,
  drain_ms integer, heartbeat_stale_ms integer)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH budget AS MATERIALIZED (
    SELECT s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms, s.heartbeat_stale_ms
    FROM {cell}.payment_outbox_settings s WHERE s.singleton
  ),
  beat AS (
    INSERT INTO {cell}.outbox_heartbeats AS h
      (name, kind, host, version, status, activity, stale_after_ms, clock_offset_ms, server_started_at, vouched,
        budget_version)
    SELECT $1, 'ingest', $2, $3, $4, $5, greatest($6, s.heartbeat_stale_ms),
      (extract(epoch FROM clock_timestamp() - $7) * 1000)::bigint, pg_postmaster_start_time(), $9, s.budget_version
    FROM budget s
    WHERE coalesce($8 = pg_postmaster_start_time(), true)
    ON CONFLICT ON CONSTRAINT outbox_heartbeats_pk DO UPDATE SET last_tick_at = clock_timestamp(),
      status = excluded.status, activity = excluded.activity, clock_offset_ms = excluded.clock_offset_ms,
      beats = h.beats + 1, vouched = excluded.vouched, server_started_at = excluded.server_started_at,
      stale_after_ms = excluded.stale_after_ms, budget_version = excluded.budget_version, tick_before_start = CASE
        WHEN h.vouched AND h.server_started_at <> excluded.server_started_at THEN h.last_tick_at
        ELSE h.tick_before_start END
    WHERE h.kind = 'ingest'
    RETURNING h.beats
  )
  SELECT b.beats, s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms,
    s.heartbeat_stale_ms
  FROM beat b CROSS JOIN budget s
$$;
-- end of beat_api

-- function create_api_token
CREATE OR REPLACE FUNCTION {cell}.create_api_token(token_digest bytea, name text, participants text[], verbs text[],
  expires_at timestamptz, reason text,
  requests_per_minute integer DEFAULT NULL, certificate_sha256 bytea DEFAULT NULL) RETURNS text
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  id   CONSTANT text := left(encode($1, 'hex'), 16);
  bad  text;
BEGIN
  PERFORM {cell}.require_reason(create_api_token.reason);
  IF create_api_token.expires_at <= clock_timestamp() THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the token would already be expired',
      HINT = 'Give a later expiry, at most 400 days ahead.';
  END IF;
  SELECT p.name INTO bad FROM unnest($3) AS p(name)
  WHERE p.name IS NULL OR length(p.name) NOT BETWEEN 1 AND 128 OR p.name COLLATE "C" ~ '[^ -~]'
    OR p.name <> btrim(p.name) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a participant must be 1 to 128 printable ASCII characters without spaces at its ends',
      HINT = 'Use the participant_id of the enqueued instructions.';
  END IF;
  BEGIN
    INSERT INTO {cell}.payment_api_tokens (token_digest, token_id, name, participants, verbs, expires_at,
      requests_per_minute, certificate_sha256)
    VALUES ($1, id, $2, $3, $4, $5, $7, $8);
  EXCEPTION WHEN check_violation OR not_null_violation THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002', MESSAGE = 'the token is not valid: ' || SQLERRM,
      HINT = 'It needs a name, participants, verbs among ENQUEUE, READ and CANCEL, and an expiry at most 400 days '
        'ahead.';
  END;
  PERFORM {cell}.log_operator_act('CREATE_TOKEN', id, NULL, create_api_token.reason,
    jsonb_strip_nulls(jsonb_build_object(
    'name', $2, 'participants', $3, 'verbs', $4, 'expires_at', $5, 'requests_per_minute', $7, 'certificate_sha256',
      encode($8, 'hex'))));
  RETURN id;
END
$$;
-- end of create_api_token

-- function revoke_api_token
CREATE OR REPLACE FUNCTION {cell}.revoke_api_token(token_id text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was_in_force boolean;
BEGIN
  PERFORM {cell}.require_reason(revoke_api_token.reason);
  UPDATE {cell}.payment_api_tokens t SET revoked_at = clock_timestamp()
  WHERE t.token_id = revoke_api_token.token_id COLLATE "C" AND t.revoked_at IS NULL;
  was_in_force := FOUND;
  IF NOT was_in_force AND NOT EXISTS (SELECT FROM {cell}.payment_api_tokens t
    WHERE t.token_id = revoke_api_token.token_id COLLATE "C") THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such token',
      HINT = 'See them all: railhead token list.';
  END IF;
  PERFORM {cell}.log_operator_act('REVOKE_TOKEN', revoke_api_token.token_id, NULL, revoke_api_token.reason);
  RETURN was_in_force;
END
$$;
-- end of revoke_api_token

-- function api_tokens
CREATE OR REPLACE FUNCTION {cell}.api_tokens()
RETURNS TABLE (token_id text, name text, participants text[], verbs text[], created_at timestamptz, created_by text,
  expires_at timestamptz,
  revoked_at timestamptz, requests_per_minute integer, has_certificate boolean, uses bigint, refused bigint,
  last_used_at timestamptz, last_refused_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT t.token_id, t.name, t.participants, t.verbs, t.created_at, t.created_by, t.expires_at, t.revoked_at,
    t.requests_per_minute, t.certificate_sha256 IS NOT NULL, coalesce(u.uses, 0), coalesce(u.refused, 0),
    u.last_used_at, u.last_refused_at
  FROM {cell}.payment_api_tokens t
  LEFT JOIN {cell}.payment_api_uses u ON u.token_id = t.token_id
  ORDER BY t.created_at DESC, t.token_id
$$;
-- end of api_tokens

-- Events of outcomes for callers. The archive is their only source. This migration adds the order
-- in which its rows are delivered, and the record of rows that contradict earlier ones.

-- The index is in the order of transactions, for outcome_feed. It leaves claims out: the answer to
-- a claim names its time and its worker.
CREATE INDEX payment_outbox_attempts_stream
  ON {cell}.payment_outbox_attempts (xact) WHERE state NOT IN ('DISPATCHING', 'INQUIRING');

CREATE TABLE {cell}.payment_outbox_contradictions (
  opened_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  outbox_id  uuid        NOT NULL,
  attempt_no integer     NOT NULL,
  CONSTRAINT payment_outbox_contradictions_pk PRIMARY KEY (outbox_id, attempt_no)
);
COMMENT ON TABLE {cell}.payment_outbox_contradictions IS
  'Append-only: rows of the archive that contradicted earlier rows of their instruction, so that a dead letter was '
  'opened as CONFLICT. The letter may be closed later, or opened for another reason.';
CREATE TRIGGER payment_outbox_contradictions_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_outbox_contradictions
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_contradictions ENABLE ALWAYS TRIGGER payment_outbox_contradictions_append_only;

-- function outcome_feed_since
CREATE OR REPLACE FUNCTION {cell}.outcome_feed_since(moment timestamptz) RETURNS xid8
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  low    bigint := 0;
  high   bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
  middle bigint;
  first  record;
BEGIN
  -- Invariant: rows of transactions below low were written before the given time, or there are
  -- none.
  WHILE low < high LOOP
    middle := low + (high - low) / 2;
    SELECT s.xact::text::bigint AS xact, s.created_at INTO first
    FROM {cell}.payment_outbox_attempts s
    WHERE s.state NOT IN ('DISPATCHING', 'INQUIRING') AND s.xact >= middle::text::xid8
    ORDER BY s.xact
    LIMIT 1;
    IF NOT FOUND OR first.created_at >= $1 - interval '1 minute' THEN
      high := middle;
    ELSE
      low := greatest(first.xact, middle) + 1;
    END IF;
  END LOOP;
  -- Transactions that are in progress now are included, however early they began.
  RETURN least(low::text::xid8, pg_snapshot_xmin(pg_current_snapshot()));
END
$$;
-- end of outcome_feed_since

-- function outcome_newest
CREATE OR REPLACE FUNCTION {cell}.outcome_newest(OUT xact xid8, OUT outbox_id uuid, OUT attempt_no integer,
  OUT attempt_id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  SELECT a.xact, a.outbox_id, a.attempt_no, a.attempt_id INTO xact, outbox_id, attempt_no, attempt_id
  FROM {cell}.payment_outbox_attempts a
  WHERE a.state NOT IN ('DISPATCHING', 'INQUIRING') AND a.xact < pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY a.xact DESC, a.outbox_id DESC, a.attempt_no DESC
  LIMIT 1;
END
$$;
-- end of outcome_newest

-- function outcome_place
CREATE OR REPLACE FUNCTION {cell}.outcome_place(xact xid8, outbox_id uuid, attempt_no integer, attempt_id uuid,
  system_identifier text,
  OUT to_xact xid8, OUT to_outbox_id uuid, OUT to_attempt_no integer, OUT went_back boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  none CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
  same CONSTANT boolean := (SELECT s.system_identifier::text = $5 FROM pg_control_system() s);
BEGIN
  went_back := false;
  to_xact := coalesce($1, '0'::xid8);
  to_outbox_id := coalesce($2, none);
  to_attempt_no := coalesce($3, 0);
  IF ($4 IS NULL OR $4 = none) AND ($5 IS NULL OR same) THEN
    RETURN;
  ELSIF $4 IS NULL OR $4 = none THEN -- the cursor is at the beginning of another server's feed
    went_back := true;
    to_xact := '0'::xid8;
    RETURN;
  ELSIF same AND EXISTS (
    SELECT FROM {cell}.payment_outbox_attempts a
    WHERE a.outbox_id = $2 AND a.attempt_no = $3 AND a.attempt_id = $4 AND a.xact = $1) OR same
      AND {cell}.left_the_archive($2)
  THEN
    RETURN;
  END IF;
  went_back := true;
  to_xact := {cell}.outcome_feed_since(least({cell}.uuidv7_time($4), (
    -- Rows that the old server delivered after this one had taken over.
    SELECT min(s.opened_at) FROM {cell}.payment_outbox_suspensions s
    WHERE s.opened_at > {cell}.uuidv7_time($4) - interval '1 day')) - interval '1 hour');
  to_outbox_id := none;
  to_attempt_no := 0;
END
$$;
-- end of outcome_place

-- function outcome_feed
CREATE OR REPLACE FUNCTION {cell}.outcome_feed(after_xact xid8, after_outbox_id uuid, after_attempt_no integer,
  rows_max integer, ahead boolean)
RETURNS TABLE (at_xact xid8, at_outbox_id uuid, at_attempt_no integer, at_attempt_id uuid, settled boolean,
  in_place boolean, event_type text,
  attempt_id uuid, outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, attempt_no integer,
  state text, answers_attempt_no integer, created_at timestamptz, claimed_at timestamptz, completed_at timestamptz,
  result text, rail_type text, rail_reference text, rail_code text, error_code text, latency_ms integer, worker_id text,
  outcome_unknown boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_hashjoin = off
SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT p.xact, p.outbox_id, p.attempt_no, p.attempt_id, p.xact < pg_snapshot_xmin(pg_current_snapshot()),
    coalesce(e.attempt_no = p.attempt_no, true),
    CASE
      WHEN e.outbox_id IS NULL THEN NULL
      WHEN EXISTS (
        SELECT FROM {cell}.payment_outbox_contradictions c WHERE c.outbox_id = e.outbox_id
          AND c.attempt_no = e.attempt_no)
        THEN 'payment.conflict'
      WHEN e.state IN ('ZOMBIE_REQUEUE', 'UNKNOWN') AND (
        SELECT b.outcome_unknown
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no AND b.state NOT IN ('DISPATCHING', 'INQUIRING')
        ORDER BY b.attempt_no DESC LIMIT 1)
        THEN NULL
      -- Late evidence may be the first to make the outcome unknown.
      WHEN e.state = 'LATE_OUTCOME' THEN CASE WHEN e.outcome_unknown AND (
        SELECT b.outcome_unknown
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no AND b.state NOT IN ('DISPATCHING', 'INQUIRING')
        ORDER BY b.attempt_no DESC LIMIT 1) IS NOT TRUE AND (
        SELECT b.state IN ('DISPATCHED', 'FAILED', 'CANCELLED')
        FROM {cell}.payment_outbox_attempts b
        WHERE b.outbox_id = e.outbox_id AND b.attempt_no < e.attempt_no
          AND b.state NOT IN ('DISPATCHING', 'INQUIRING', 'LATE_OUTCOME')
        ORDER BY b.attempt_no DESC LIMIT 1) IS NOT TRUE THEN 'payment.outcome_unknown' END
      WHEN e.state = 'FAILED' AND e.error_code = 'EXPIRED' THEN 'payment.expired'
      ELSE (SELECT t.type FROM (VALUES ('DISPATCHED', 'payment.dispatched'), ('FAILED', 'payment.failed'), ('ZOMBIE_REQUEUE', 'payment.outcome_unknown'), ('ACCEPTED', 'payment.accepted'), ('UNKNOWN', 'payment.outcome_unknown'), ('PARKED', 'payment.needs_attention'), ('CANCELLED', 'payment.cancelled'), ('REPLAYED', 'payment.replayed')) AS t(state, type) WHERE t.state = e.state::text)
    END,
    e.attempt_id, e.outbox_id, coalesce(k.instruction_id, e.instruction_id),
    coalesce(k.participant_id, e.participant_id), coalesce(k.sequence_id, e.sequence_id), e.attempt_no, e.state::text,
    e.answers_attempt_no, e.created_at, e.claimed_at, e.completed_at, e.result, e.rail_type, e.rail_reference,
    e.rail_code, e.error_code, e.latency_ms, e.worker_id, e.outcome_unknown
  FROM (
    SELECT s.xact, s.outbox_id, s.attempt_no, s.attempt_id
    FROM {cell}.payment_outbox_attempts s
    WHERE s.state NOT IN ('DISPATCHING', 'INQUIRING')
      AND s.xact >= $1 AND s.xact < CASE WHEN $5 THEN pg_snapshot_xmax(pg_current_snapshot())
        ELSE pg_snapshot_xmin(pg_current_snapshot()) END
      AND (s.xact > $1 OR (s.outbox_id, s.attempt_no) > ($2, $3))
    ORDER BY s.xact, s.outbox_id, s.attempt_no
    LIMIT $4) p
  LEFT JOIN LATERAL (
    SELECT r.*
    FROM {cell}.payment_outbox_attempts r
    WHERE r.outbox_id = p.outbox_id AND r.attempt_no <= p.attempt_no AND r.state NOT IN ('DISPATCHING', 'INQUIRING')
      AND (r.xact, r.attempt_no) >= (p.xact, p.attempt_no)
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts f
        WHERE f.outbox_id = p.outbox_id AND f.attempt_no >= r.attempt_no AND f.state NOT IN ('DISPATCHING', 'INQUIRING')
          AND (f.xact, f.attempt_no) < (p.xact, p.attempt_no))) e ON true
  LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = e.outbox_id
  ORDER BY p.xact, p.outbox_id, p.attempt_no, e.attempt_no;
END
$$;
-- end of outcome_feed

-- function api_events
CREATE OR REPLACE FUNCTION {cell}.api_events(tokens bytea[], certificates bytea[], participants text[], types text[],
  since timestamptz,
  place_system text, place_xact xid8, place_outbox_id uuid, place_attempt_no integer, place_attempt_id uuid,
  rows_max integer)
RETURNS TABLE (kind text, items integer[], why text, at_xact xid8, at_outbox_id uuid, at_attempt_no integer,
  at_attempt_id uuid,
  in_place boolean, went_back boolean, event_type text, attempt_id uuid, outbox_id uuid, of_instruction text,
  of_participant text, sequence_id bigint, attempt_no integer, state text, created_at timestamptz, rail_type text,
  rail_reference text, rail_code text, error_code text, outcome_unknown boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
  most  CONSTANT integer := least(greatest(coalesce(api_events.rows_max, 100), 0), 2000);
  place record;
  top   record;
  held  timestamptz;
BEGIN
  IF cardinality(tokens) > 10000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = format('%s readers are more than 10000', cardinality(tokens)),
      HINT = 'Ask for fewer at once.';
  END IF;
  SELECT p.to_xact AS xact, p.to_outbox_id AS outbox_id, p.to_attempt_no AS attempt_no, p.went_back,
    CASE WHEN NOT p.went_back THEN place_attempt_id END AS attempt_id
  INTO place
  FROM {cell}.outcome_place(place_xact, place_outbox_id, place_attempt_no, place_attempt_id, place_system) p;
  SELECT n.* INTO top FROM {cell}.outcome_newest() n;
  IF most > 0 AND place_xact IS NULL AND since IS NOT NULL THEN
    place.xact := {cell}.outcome_feed_since(since);
  END IF;
  SELECT a.created_at INTO held
  FROM {cell}.payment_outbox_attempts a
  WHERE a.state NOT IN ('DISPATCHING', 'INQUIRING') AND a.xact >= pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY a.xact
  LIMIT 1;

  RETURN QUERY
  WITH asked AS MATERIALIZED (
    SELECT i.n::integer AS n, i.participants::text[] AS participants, i.types::text[] AS types,
      t.participants AS allowed, coalesce({cell}.api_token_refusal(t, i.certificate, 'READ', ''),
        CASE WHEN NOT i.participants::text[] COLLATE "C" <@ t.participants THEN 'PARTICIPANT' END) AS why
    FROM unnest(tokens, certificates, participants, types) WITH ORDINALITY AS i(token, certificate, participants, types,
      n)
    LEFT JOIN {cell}.payment_api_tokens t ON t.token_digest = sha256(i.token)
  ),
  feed AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY f.at_xact, f.at_outbox_id, f.at_attempt_no, f.attempt_no) AS no, f.*
    FROM {cell}.outcome_feed(place.xact, place.outbox_id, place.attempt_no, most, false) f
    WHERE most > 0
  ),
  heard AS (
    SELECT f.no, array_agg(DISTINCT a.n) AS items
    FROM asked a
    CROSS JOIN LATERAL (SELECT DISTINCT u.participant_id FROM unnest(coalesce(a.participants, a.allowed))
      AS u(participant_id)) p
    JOIN feed f ON f.participant_id = p.participant_id COLLATE "C"
    WHERE a.why IS NULL AND f.event_type IS NOT NULL AND (a.types IS NULL OR f.event_type = ANY (a.types))
    GROUP BY f.no
  ),
  newest AS (
    SELECT f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id
    FROM feed f
    ORDER BY f.no DESC
    LIMIT 1
  )
  SELECT x.kind, x.items, x.why, x.at_xact, x.at_outbox_id, x.at_attempt_no, x.at_attempt_id, x.in_place, x.went_back,
    f.event_type, f.attempt_id, f.outbox_id, f.instruction_id, f.participant_id, f.sequence_id, f.attempt_no, f.state,
    CASE x.kind WHEN 'END' THEN held ELSE f.created_at END, f.rail_type, f.rail_reference, f.rail_code, f.error_code,
      f.outcome_unknown
  FROM (
    SELECT 1 AS part, 'REFUSED' AS kind, 0::bigint AS no, array_agg(a.n ORDER BY a.n) AS items, a.why,
      NULL::xid8 AS at_xact, NULL::uuid AS at_outbox_id, NULL::integer AS at_attempt_no, NULL::uuid AS at_attempt_id,
      NULL::boolean AS in_place, NULL::boolean AS went_back
    FROM asked a
    WHERE a.why IS NOT NULL
    GROUP BY a.why
    UNION ALL
    SELECT 2, 'EVENT', h.no, h.items, NULL, f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id, f.in_place,
      NULL
    FROM heard h
    JOIN feed f ON f.no = h.no
    UNION ALL
    SELECT 3, 'END', 0, NULL, s.system_identifier::text, coalesce(l.at_xact, top.xact, place.xact),
      coalesce(l.at_outbox_id, top.outbox_id, place.outbox_id),
      coalesce(l.at_attempt_no, top.attempt_no, place.attempt_no), coalesce(l.at_attempt_id, top.attempt_id), most > 0
        AND (SELECT count(*) FROM feed f WHERE f.in_place) < most, place.went_back
    FROM pg_control_system() s
    LEFT JOIN newest l ON true) x
  LEFT JOIN feed f ON x.kind = 'EVENT' AND f.no = x.no
  ORDER BY x.part, x.no;
END
$$;
-- end of api_events

-- Delivery of events to endpoints. The events are in the archive alone; these tables hold cursors.
-- If they are lost, events are delivered again, or delivery starts with new events.

CREATE TABLE {cell}.payment_event_endpoints (
  created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
  lease_until      timestamptz NOT NULL DEFAULT '-infinity',
  delivered_at     timestamptz,
  paused_at        timestamptz,
  epoch            bigint      NOT NULL DEFAULT 0,
  notes            bigint      NOT NULL DEFAULT 0,
  place_xact       xid8        NOT NULL,
  place_outbox_id  uuid,
  place_attempt_id uuid,
  place_attempt_no integer,
  endpoint_id      text COLLATE "C" NOT NULL,
  worker_id        text COLLATE "C" NOT NULL DEFAULT '',
  place_system     text COLLATE "C" NOT NULL,
  pause_reason     text COLLATE "C",
  CONSTRAINT payment_event_endpoints_pk PRIMARY KEY (endpoint_id),
  CONSTRAINT payment_event_endpoints_id CHECK (endpoint_id ~ '^[a-z0-9][a-z0-9_-]{0,63}$'),
  CONSTRAINT payment_event_endpoints_pause CHECK ((paused_at IS NULL) = (pause_reason IS NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE {cell}.payment_event_endpoints IS
  'One row for each endpoint to which events are delivered: its cursor in outcome_feed. Each event up to the '
  'cursor was delivered or is in payment_event_retries.';
COMMENT ON COLUMN {cell}.payment_event_endpoints.epoch IS
  'The fencing token. It increases with each worker that takes the lease of the endpoint; the notes of an earlier '
  'worker are refused.';
COMMENT ON COLUMN {cell}.payment_event_endpoints.notes IS
  'Increases with each note. A note that is based on an earlier state of the row, such as that before a failover, '
  'is refused.';
COMMENT ON COLUMN {cell}.payment_event_endpoints.place_system IS
  'The identifier of the database system to which place_xact belongs.';

CREATE TABLE {cell}.payment_event_retries (
  outbox_id   uuid        NOT NULL,
  attempt_id  uuid        NOT NULL,
  created_at  timestamptz NOT NULL,
  failed_at   timestamptz,
  next_at     timestamptz NOT NULL,
  attempt_no  integer     NOT NULL,
  tries       integer     NOT NULL,
  endpoint_id text COLLATE "C" NOT NULL,
  event_type  text COLLATE "C" NOT NULL,
  last_status text COLLATE "C" NOT NULL,
  CONSTRAINT payment_event_retries_pk PRIMARY KEY (endpoint_id, outbox_id, attempt_no),
  CONSTRAINT payment_event_retries_endpoint FOREIGN KEY (endpoint_id) REFERENCES {cell}.payment_event_endpoints,
  CONSTRAINT payment_event_retries_status CHECK (octet_length(last_status) <= 200)
) WITH (fillfactor = 50);
COMMENT ON TABLE {cell}.payment_event_retries IS
  'Events that an endpoint has not accepted, and later events of the same instructions.';
COMMENT ON COLUMN {cell}.payment_event_retries.created_at IS 'The time of the event.';
COMMENT ON COLUMN {cell}.payment_event_retries.failed_at IS
  'The time of the last failed delivery; null if the event was not tried yet, because an earlier one comes first.';
COMMENT ON COLUMN {cell}.payment_event_retries.next_at IS
  'The time of the next delivery; infinity if an operator has to ask for it.';

-- function take_event_endpoint
CREATE OR REPLACE FUNCTION {cell}.take_event_endpoint(endpoint_id text, worker_id text, lease_ms bigint,
  since timestamptz)
RETURNS TABLE (epoch bigint, held_by text, paused_at timestamptz, pause_reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  found_row {cell}.payment_event_endpoints;
BEGIN
  IF coalesce($2, '') = '' OR coalesce($1, '') !~ '^[a-z0-9][a-z0-9_-]{0,63}$' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH002',
      MESSAGE = 'a worker needs a name, and an endpoint an id of 1 to 64 characters of a-z, 0-9, _ and -',
      HINT = 'Give each endpoint of the file such an id.';
  ELSIF $3 IS NULL OR $3 NOT BETWEEN 1 AND 600000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = 'a lease must be 1 ms to 10 min',
      HINT = 'Take a shorter lease, and renew it.';
  END IF;
  SELECT e.* INTO found_row FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 FOR UPDATE;
  IF NOT FOUND THEN
    IF (SELECT count(*) FROM {cell}.payment_event_endpoints) >= 1000 THEN
      RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = 'there are already 1000 endpoints',
        HINT = 'Use fewer endpoints, one for each caller.';
    END IF;
    INSERT INTO {cell}.payment_event_endpoints AS e (endpoint_id, place_system, place_xact, place_outbox_id,
      place_attempt_no, place_attempt_id)
    SELECT $1, s.system_identifier::text,
      coalesce(CASE WHEN $4 IS NULL THEN n.xact ELSE {cell}.outcome_feed_since($4) END, '0'),
      CASE WHEN $4 IS NULL THEN n.outbox_id END, CASE WHEN $4 IS NULL THEN n.attempt_no END, CASE WHEN $4 IS NULL
        THEN n.attempt_id END
    FROM pg_control_system() s
    CROSS JOIN {cell}.outcome_newest() n
    ON CONFLICT ON CONSTRAINT payment_event_endpoints_pk DO NOTHING;
    SELECT e.* INTO found_row FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 FOR UPDATE;
  END IF;
  IF found_row.worker_id <> $2 AND found_row.lease_until > clock_timestamp() THEN
    RETURN QUERY SELECT NULL::bigint, found_row.worker_id, found_row.paused_at, found_row.pause_reason;
    RETURN;
  END IF;
  RETURN QUERY
  UPDATE {cell}.payment_event_endpoints e
  SET worker_id = $2, lease_until = clock_timestamp() + $3 * interval '1 ms', epoch = e.epoch + CASE
    WHEN e.worker_id = $2 THEN 0 ELSE 1 END
  WHERE e.endpoint_id = $1
  RETURNING e.epoch, e.worker_id, e.paused_at, e.pause_reason;
END
$$;
-- end of take_event_endpoint

-- function event_deliveries
CREATE OR REPLACE FUNCTION {cell}.event_deliveries(endpoint_id text, worker_id text, epoch bigint, participants text[],
  types text[],
  retries_max integer, rows_max integer)
RETURNS TABLE (kind text, system_identifier text, at_xact xid8, at_outbox_id uuid, at_attempt_no integer,
  at_attempt_id uuid, in_place boolean,
  went_back boolean, behind boolean, tries integer, waiting integer, given_up integer, oldest_at timestamptz,
  notes bigint, event_type text, attempt_id uuid, outbox_id uuid, of_instruction text, of_participant text,
  sequence_id bigint, attempt_no integer, state text, created_at timestamptz, rail_type text, rail_reference text,
  rail_code text, error_code text, outcome_unknown boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  now_at CONSTANT timestamptz := clock_timestamp();
  most   integer := least(greatest(coalesce($7, 100), 0), 2000);
  asked  {cell}.payment_event_endpoints;
  place  record;
  all_   record;
BEGIN
  SELECT e.* INTO asked FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 AND e.worker_id = $2
    AND e.epoch = $3;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT p.to_xact AS xact, p.to_outbox_id AS outbox_id, p.to_attempt_no AS attempt_no, p.went_back,
    CASE WHEN NOT p.went_back THEN asked.place_attempt_id END AS attempt_id
  INTO place
  FROM {cell}.outcome_place(asked.place_xact, asked.place_outbox_id, asked.place_attempt_no, asked.place_attempt_id,
    asked.place_system) p;
  SELECT count(*)::integer AS waiting, (count(*) FILTER (WHERE NOT isfinite(r.next_at)))::integer AS given_up,
    min(r.created_at) AS oldest_at, (count(*) FILTER (WHERE NOT r.is_stuck))::integer AS active
  INTO all_
  FROM (
    SELECT w.next_at, w.created_at, bool_or(NOT isfinite(w.next_at)) OVER (PARTITION BY w.outbox_id) AS is_stuck
    FROM {cell}.payment_event_retries w
    WHERE w.endpoint_id = $1) r;
  IF all_.active >= 1000 OR all_.waiting >= 10000 THEN
    most := 0;
  END IF;

  RETURN QUERY
  WITH due AS MATERIALIZED (
    SELECT r.*
    FROM (
      -- The first event of each instruction, if it is due.
      SELECT f.outbox_id, f.next_at
      FROM (
        SELECT DISTINCT ON (w.outbox_id) w.outbox_id, w.next_at
        FROM {cell}.payment_event_retries w
        WHERE w.endpoint_id = $1
        ORDER BY w.outbox_id, w.attempt_no) f
      WHERE f.next_at <= now_at
      ORDER BY f.next_at, f.outbox_id
      LIMIT greatest(coalesce($6, 0), 0)) first
    JOIN {cell}.payment_event_retries r ON r.endpoint_id = $1 AND r.outbox_id = first.outbox_id
    WHERE NOT EXISTS (
      SELECT FROM {cell}.payment_event_retries b
      WHERE b.endpoint_id = $1 AND b.outbox_id = r.outbox_id AND b.attempt_no <= r.attempt_no AND b.next_at > now_at)
  ),
  feed AS MATERIALIZED (
    SELECT row_number() OVER (ORDER BY f.at_xact, f.at_outbox_id, f.at_attempt_no, f.attempt_no) AS no, f.*
    FROM {cell}.outcome_feed(place.xact, place.outbox_id, place.attempt_no, most, false) f
    WHERE most > 0
  ),
  newest AS (
    SELECT f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id
    FROM feed f
    ORDER BY f.no DESC
    LIMIT 1
  )
  SELECT x.kind, s.system_identifier::text, x.at_xact, x.at_outbox_id, x.at_attempt_no, x.at_attempt_id, x.in_place,
    x.went_back, x.behind, x.tries, all_.waiting, all_.given_up, all_.oldest_at, asked.notes, x.event_type,
    x.attempt_id, x.outbox_id, x.of_instruction, x.of_participant, x.sequence_id, x.attempt_no, x.state, x.created_at,
    x.rail_type, x.rail_reference, x.rail_code, x.error_code, x.outcome_unknown
  FROM pg_control_system() s
  CROSS JOIN (
    SELECT CASE WHEN t.is_told THEN 2 ELSE 1 END AS part, 0::bigint AS no, CASE WHEN t.is_told THEN 'RETRY'
      ELSE 'FORGOTTEN' END AS kind,
      NULL::xid8 AS at_xact, NULL::uuid AS at_outbox_id, NULL::integer AS at_attempt_no, NULL::uuid AS at_attempt_id,
      NULL::boolean AS in_place, NULL::boolean AS went_back, false AS behind, d.tries, d.event_type, d.attempt_id,
      d.outbox_id, coalesce(k.instruction_id, a.instruction_id) AS of_instruction,
      coalesce(k.participant_id, a.participant_id) AS of_participant,
      coalesce(k.sequence_id, a.sequence_id) AS sequence_id, d.attempt_no, a.state::text AS state,
      coalesce(a.created_at, d.created_at) AS created_at, a.rail_type, a.rail_reference, a.rail_code, a.error_code,
      a.outcome_unknown
    FROM due d
    LEFT JOIN {cell}.payment_outbox_attempts a ON a.outbox_id = d.outbox_id AND a.attempt_no = d.attempt_no
      AND a.attempt_id = d.attempt_id
    LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = d.outbox_id
    CROSS JOIN LATERAL (
      SELECT a.attempt_id IS NOT NULL
        AND ($4 IS NULL OR coalesce(k.participant_id, a.participant_id) COLLATE "C" = ANY ($4))
        AND ($5 IS NULL OR d.event_type = ANY ($5)) AS is_told) t
    UNION ALL
    SELECT 3, f.no, 'EVENT', f.at_xact, f.at_outbox_id, f.at_attempt_no, f.at_attempt_id, f.in_place, NULL,
      EXISTS (SELECT FROM {cell}.payment_event_retries b WHERE b.endpoint_id = $1 AND b.outbox_id = f.outbox_id), 0,
        f.event_type, f.attempt_id,
      f.outbox_id, f.instruction_id, f.participant_id, f.sequence_id, f.attempt_no, f.state, f.created_at, f.rail_type,
      f.rail_reference, f.rail_code, f.error_code, f.outcome_unknown
    FROM feed f
    WHERE f.event_type IS NOT NULL AND ($4 IS NULL OR f.participant_id COLLATE "C" = ANY ($4))
      AND ($5 IS NULL OR f.event_type = ANY ($5))
    UNION ALL
    SELECT 4, 0, 'END', coalesce(l.at_xact, place.xact), coalesce(l.at_outbox_id, place.outbox_id),
      coalesce(l.at_attempt_no, place.attempt_no), coalesce(l.at_attempt_id, place.attempt_id), most = 0
        OR (SELECT count(*) FROM feed f WHERE f.in_place) < most, place.went_back,
      false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM (VALUES (1)) AS one(n)
    LEFT JOIN newest l ON true) x
  ORDER BY x.part, x.no, x.outbox_id, x.attempt_no;
END
$$;
-- end of event_deliveries

-- function note_event_deliveries
CREATE OR REPLACE FUNCTION {cell}.note_event_deliveries(endpoint_id text, worker_id text, epoch bigint, lease_ms bigint,
  place_system text, place_xact xid8, place_outbox_id uuid, place_attempt_no integer, place_attempt_id uuid,
  done_outbox_ids uuid[], done_attempt_nos integer[], outbox_ids uuid[], attempt_nos integer[], attempt_ids uuid[],
  event_types text[], created_ats timestamptz[], tries integer[], wait_ms bigint[], statuses text[], taken boolean,
  again boolean, notes bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  now_at CONSTANT timestamptz := clock_timestamp();
BEGIN
  IF cardinality($10) + cardinality($12) > 10000 THEN
    RAISE EXCEPTION USING ERRCODE = 'RH005', MESSAGE = 'more than 10000 events are noted at once', HINT = 'Note fewer.';
  END IF;
  UPDATE {cell}.payment_event_endpoints e
  SET notes = e.notes + 1, lease_until = now_at + least($4, 600000) * interval '1 ms', delivered_at = CASE WHEN $20
    THEN now_at ELSE e.delivered_at END,
    place_system = coalesce($5, e.place_system),
    place_xact = CASE WHEN $5 IS NULL THEN e.place_xact ELSE $6 END,
    place_outbox_id = CASE WHEN $5 IS NULL THEN e.place_outbox_id ELSE $7 END,
    place_attempt_no = CASE WHEN $5 IS NULL THEN e.place_attempt_no ELSE $8 END,
    place_attempt_id = CASE WHEN $5 IS NULL THEN e.place_attempt_id ELSE $9 END
  WHERE e.endpoint_id = $1 AND e.worker_id = $2 AND e.epoch = $3 AND e.notes = $22;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  DELETE FROM {cell}.payment_event_retries r
  USING unnest($10, $11) AS d(outbox_id, attempt_no)
  WHERE r.endpoint_id = $1 AND r.outbox_id = d.outbox_id AND r.attempt_no = d.attempt_no;
  INSERT INTO {cell}.payment_event_retries AS r
    (endpoint_id, outbox_id, attempt_no, attempt_id, event_type, created_at, tries, next_at, last_status, failed_at)
  SELECT $1, w.outbox_id, w.attempt_no, w.attempt_id, w.event_type, w.created_at, w.tries,
    coalesce(now_at + w.wait_ms * interval '1 ms', 'infinity'), left(w.status, 200), CASE WHEN w.tries > 0
      THEN now_at END
  FROM unnest($12, $13, $14, $15, $16, $17, $18, $19) AS w(outbox_id, attempt_no, attempt_id, event_type, created_at,
    tries, wait_ms, status)
  ON CONFLICT ON CONSTRAINT payment_event_retries_pk DO UPDATE SET attempt_id = excluded.attempt_id,
    event_type = excluded.event_type, created_at = excluded.created_at, tries = excluded.tries,
    next_at = excluded.next_at, last_status = excluded.last_status, failed_at = excluded.failed_at
  WHERE excluded.tries > 0 OR r.attempt_id <> excluded.attempt_id;
  IF $21 THEN
    UPDATE {cell}.payment_event_retries r SET next_at = now_at, tries = least(r.tries, 1) WHERE r.endpoint_id = $1
      AND r.next_at > now_at AND isfinite(r.next_at);
  END IF;
  RETURN true;
END
$$;
-- end of note_event_deliveries

-- function pause_event_endpoint
CREATE OR REPLACE FUNCTION {cell}.pause_event_endpoint(endpoint_id text, worker_id text, epoch bigint, reason text)
  RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  PERFORM {cell}.require_reason($4);
  UPDATE {cell}.payment_event_endpoints e SET paused_at = clock_timestamp(), pause_reason = $4
  WHERE e.endpoint_id = $1 AND e.worker_id = $2 AND e.epoch = $3 AND e.paused_at IS NULL;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM {cell}.log_operator_act('PAUSE_ENDPOINT', $1, NULL, $4);
  RETURN true;
END
$$;
-- end of pause_event_endpoint

-- function redeliver_events
CREATE OR REPLACE FUNCTION {cell}.redeliver_events(endpoint_id text, since timestamptz, reason text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  waited integer;
  asked  {cell}.payment_event_endpoints;
  first  xid8;
BEGIN
  PERFORM {cell}.require_reason($3);
  -- The deliveries that a worker has in progress belong to the earlier epoch, and are not noted.
  UPDATE {cell}.payment_event_endpoints e SET epoch = e.epoch + 1, paused_at = NULL, pause_reason = NULL
    WHERE e.endpoint_id = $1 COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such endpoint',
      HINT = 'See them all: railhead events endpoints.';
  END IF;
  IF $2 IS NOT NULL THEN
    SELECT e.* INTO asked FROM {cell}.payment_event_endpoints e WHERE e.endpoint_id = $1 COLLATE "C";
    first := {cell}.outcome_feed_since($2);
    -- The cursor never moves forward: earlier events that are not delivered yet would be skipped.
    UPDATE {cell}.payment_event_endpoints e
    SET place_system = s.system_identifier::text, place_xact = first, place_outbox_id = NULL, place_attempt_no = NULL,
      place_attempt_id = NULL
    FROM pg_control_system() s
    CROSS JOIN {cell}.outcome_place(asked.place_xact, asked.place_outbox_id, asked.place_attempt_no,
      asked.place_attempt_id, asked.place_system) p
    WHERE e.endpoint_id = $1 COLLATE "C" AND first <= p.to_xact;
  END IF;
  UPDATE {cell}.payment_event_retries r SET next_at = clock_timestamp(), tries = 0 WHERE r.endpoint_id = $1 COLLATE "C";
  GET DIAGNOSTICS waited = ROW_COUNT;
  PERFORM {cell}.log_operator_act('REDELIVER_EVENTS', $1, NULL, $3, jsonb_strip_nulls(jsonb_build_object('since', $2)));
  RETURN waited;
END
$$;
-- end of redeliver_events

-- function discard_events
CREATE OR REPLACE FUNCTION {cell}.discard_events(endpoint_id text, reason text) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
  given_up integer;
BEGIN
  PERFORM {cell}.require_reason($2);
  -- The deliveries that a worker has in progress belong to the earlier epoch, and are not noted.
  UPDATE {cell}.payment_event_endpoints e SET epoch = e.epoch + 1 WHERE e.endpoint_id = $1 COLLATE "C";
  IF NOT FOUND THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such endpoint',
      HINT = 'See them all: railhead events endpoints.';
  END IF;
  DELETE FROM {cell}.payment_event_retries r WHERE r.endpoint_id = $1 COLLATE "C" AND NOT isfinite(r.next_at);
  GET DIAGNOSTICS given_up = ROW_COUNT;
  PERFORM {cell}.log_operator_act('DISCARD_EVENTS', $1, NULL, $2, jsonb_build_object('events', given_up));
  RETURN given_up;
END
$$;
-- end of discard_events

-- function event_endpoints
CREATE OR REPLACE FUNCTION {cell}.event_endpoints()
RETURNS TABLE (endpoint_id text, created_at timestamptz, paused_at timestamptz, pause_reason text, worker_id text,
  lease_until timestamptz,
  delivered_at timestamptz, read_until timestamptz, waiting integer, given_up integer, oldest_at timestamptz,
  last_status text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY
  SELECT e.endpoint_id, e.created_at, e.paused_at, e.pause_reason, e.worker_id, e.lease_until, e.delivered_at, (
      SELECT a.created_at FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = e.place_outbox_id AND a.attempt_no = e.place_attempt_no
        AND a.attempt_id = e.place_attempt_id),
    coalesce(w.waiting, 0), coalesce(w.given_up, 0), w.oldest_at, w.last_status
  FROM {cell}.payment_event_endpoints e
  LEFT JOIN LATERAL (
    SELECT count(*)::integer AS waiting, (count(*) FILTER (WHERE NOT isfinite(r.next_at)))::integer AS given_up,
      min(r.created_at) AS oldest_at, (array_agg(r.last_status ORDER BY r.failed_at DESC NULLS LAST))[1] AS last_status
    FROM {cell}.payment_event_retries r
    WHERE r.endpoint_id = e.endpoint_id) w ON true
  ORDER BY e.endpoint_id;
END
$$;
-- end of event_endpoints

-- function beat_events
CREATE OR REPLACE FUNCTION {cell}.beat_events(name text, host text, version text, status text, activity text,
  stale_after_ms bigint, host_clock timestamptz, looked_at timestamptz, vouched boolean)
RETURNS TABLE (beats bigint, budget_version integer, claim_timeout_ms integer, start_within_ms integer,
  record_within_ms integer,
  drain_ms integer, heartbeat_stale_ms integer)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  WITH budget AS MATERIALIZED (
    SELECT s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms, s.heartbeat_stale_ms
    FROM {cell}.payment_outbox_settings s WHERE s.singleton
  ),
  beat AS (
    INSERT INTO {cell}.outbox_heartbeats AS h
      (name, kind, host, version, status, activity, stale_after_ms, clock_offset_ms, server_started_at, vouched,
        budget_version)
    SELECT $1, 'events', $2, $3, $4, $5, greatest($6, s.heartbeat_stale_ms),
      (extract(epoch FROM clock_timestamp() - $7) * 1000)::bigint, pg_postmaster_start_time(), $9, s.budget_version
    FROM budget s
    WHERE coalesce($8 = pg_postmaster_start_time(), true)
    ON CONFLICT ON CONSTRAINT outbox_heartbeats_pk DO UPDATE SET last_tick_at = clock_timestamp(),
      status = excluded.status, activity = excluded.activity, clock_offset_ms = excluded.clock_offset_ms,
      beats = h.beats + 1, vouched = excluded.vouched, server_started_at = excluded.server_started_at,
      stale_after_ms = excluded.stale_after_ms, budget_version = excluded.budget_version, tick_before_start = CASE
        WHEN h.vouched AND h.server_started_at <> excluded.server_started_at THEN h.last_tick_at
        ELSE h.tick_before_start END
    WHERE h.kind = 'events'
    RETURNING h.beats
  )
  SELECT b.beats, s.budget_version, s.claim_timeout_ms, s.start_within_ms, s.record_within_ms, s.drain_ms,
    s.heartbeat_stale_ms
  FROM beat b CROSS JOIN budget s
$$;
-- end of beat_events
