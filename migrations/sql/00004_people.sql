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
  ON {cell}.payment_dead_letters (reason, rail_type, opened_at) WHERE status NOT IN ({closed_letters});

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
  CONSTRAINT outbox_heartbeats_kind CHECK (kind IN ('relayer', 'reaper', 'ingest', 'callback')),
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
{include keep_letter_open}
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

{include required_fields}
{include gate_mark}
{include refresh_outbox_rules}

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
{include call_budget_ms}
{include keep_time_budget}
CREATE TRIGGER payment_outbox_settings_keeps_budget
  AFTER UPDATE ON {cell}.payment_outbox_settings
  FOR EACH ROW EXECUTE FUNCTION {cell}.keep_time_budget();
CREATE TRIGGER payment_rails_keeps_budget
  AFTER INSERT OR UPDATE OF rail_type, profile_version ON {cell}.payment_rails
  FOR EACH ROW EXECUTE FUNCTION {cell}.keep_time_budget();
ALTER TABLE {cell}.payment_outbox_settings ENABLE ALWAYS TRIGGER payment_outbox_settings_keeps_budget;
ALTER TABLE {cell}.payment_rails ENABLE ALWAYS TRIGGER payment_rails_keeps_budget;
