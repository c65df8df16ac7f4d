-- How far each endpoint of callers has been told of outcomes. What is told is in the archive
-- alone: these tables hold positions. Losing them repeats events, or begins with those from now on.

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
  'One row per endpoint that events are delivered to: up to which place of outcome_feed each event was delivered, or waits in payment_event_retries.';
COMMENT ON COLUMN {cell}.payment_event_endpoints.epoch IS 'Goes up with each worker that takes the endpoint; what an earlier one notes is refused.';
COMMENT ON COLUMN {cell}.payment_event_endpoints.notes IS
  'Goes up with each note: one that was made of what an earlier state of the row said, as before a failover, is refused.';
COMMENT ON COLUMN {cell}.payment_event_endpoints.place_system IS 'Identifier of the database system that place_xact is of.';

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
  'Events that an endpoint has not taken, and those that wait behind one of the same instruction.';
COMMENT ON COLUMN {cell}.payment_event_retries.created_at IS 'Of the event.';
COMMENT ON COLUMN {cell}.payment_event_retries.failed_at IS 'Of the last try; null: it only waits behind an earlier event.';
COMMENT ON COLUMN {cell}.payment_event_retries.next_at IS 'When it is tried again; infinity: not until an operator asks.';

{include take_event_endpoint}
{include event_deliveries}
{include note_event_deliveries}
{include pause_event_endpoint}
{include redeliver_events}
{include discard_events}
{include event_endpoints}
{include beat_events}
