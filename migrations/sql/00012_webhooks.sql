-- Delivery of events to endpoints. The events are in the archive alone; these tables hold cursors.
-- If they are lost, events are delivered again, or delivery starts with new events.

ALTER TABLE {cell}.outbox_heartbeats DROP CONSTRAINT outbox_heartbeats_kind;
ALTER TABLE {cell}.outbox_heartbeats ADD CONSTRAINT outbox_heartbeats_kind
  CHECK (kind IN ('relayer', 'reaper', 'ingest', 'callback', 'events'));

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

{include take_event_endpoint}
{include event_deliveries}
{include note_event_deliveries}
{include pause_event_endpoint}
{include redeliver_events}
{include discard_events}
{include event_endpoints}
{include beat_events}
