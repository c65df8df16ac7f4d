-- Tables of facts that the checks of the schema use, and the settings of this cell.

{include uuidv7_from}
{include uuidv7}
{include uuidv7_floor}
{include uuidv7_time}
{include refuse_change}
{include notify_outbox_pending}
{include keep_outcome_unknown}
{include payment_rail_key}
{include server_timeline}

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
{include number_time_budget}
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
