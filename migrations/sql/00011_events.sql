-- What callers hear of outcomes. The archive is the only source: here is the order in
-- which its rows are told, and which of them contradict what stood there before.

-- Of what happened lately, by the transaction that wrote it: see outcome_feed. Claims are
-- left out, because their answers say when and by whom they were claimed.
CREATE INDEX payment_outbox_attempts_stream
  ON {cell}.payment_outbox_attempts (xact) WHERE state NOT IN ({claim_states});

CREATE TABLE {cell}.payment_outbox_contradictions (
  opened_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  outbox_id  uuid        NOT NULL,
  attempt_no integer     NOT NULL,
  CONSTRAINT payment_outbox_contradictions_pk PRIMARY KEY (outbox_id, attempt_no)
);
COMMENT ON TABLE {cell}.payment_outbox_contradictions IS
  'Append-only: rows of the archive that contradicted what was said of their instruction before, so that a dead letter was '
  'opened as CONFLICT. The letter may move on, and be opened for another reason.';
CREATE TRIGGER payment_outbox_contradictions_append_only
  BEFORE UPDATE OR DELETE OR TRUNCATE ON {cell}.payment_outbox_contradictions
  FOR EACH STATEMENT EXECUTE FUNCTION {cell}.refuse_change();
ALTER TABLE {cell}.payment_outbox_contradictions ENABLE ALWAYS TRIGGER payment_outbox_contradictions_append_only;

{include outcome_feed_since}
{include outcome_newest}
{include outcome_place}
{include outcome_feed}
{include api_events}

-- It was for the feed's readers. Last, because from here to the commit the archive can't be read.
DROP INDEX {cell}.payment_outbox_attempts_recent;
