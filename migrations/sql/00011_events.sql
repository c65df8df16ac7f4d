-- Events of outcomes for callers. The archive is their only source. This migration adds the order
-- in which its rows are delivered, and the record of rows that contradict earlier ones.

-- The index is in the order of transactions, for outcome_feed. It leaves claims out: the answer to
-- a claim names its time and its worker.
CREATE INDEX payment_outbox_attempts_stream
  ON {cell}.payment_outbox_attempts (xact) WHERE state NOT IN ({claim_states});

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

{include outcome_feed_since}
{include outcome_newest}
{include outcome_place}
{include outcome_feed}
{include api_events}

-- The index served the readers of the feed. It is dropped last, because the archive cannot be read
-- from here to the commit.
DROP INDEX {cell}.payment_outbox_attempts_recent;
