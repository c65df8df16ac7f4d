-- carried_payments(participants text[], outbox_ids uuid[])
--   -> (item integer, outbox_id uuid, instruction_id text, participant_id text, idempotency_key text,
--       sequence_id bigint, created_at timestamptz)
--   Of the instructions with these ids those that participants have enqueued in other cells, before they
--   were moved to this one, each with the number of its id, from 1. The cells in which they were enqueued
--   have everything else of them.
-- reads:   payment_arrived_keys, by outbox_id; payment_arrivals.   writes, locks: nothing.
-- called by: api_payments, require_api_payment.
CREATE OR REPLACE FUNCTION {cell}.carried_payments(participants text[], outbox_ids uuid[])
RETURNS TABLE (item integer, outbox_id uuid, instruction_id text, participant_id text, idempotency_key text,
  sequence_id bigint, created_at timestamptz)
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT asked.n::integer, r.outbox_id, r.instruction_id, r.participant_id, r.idempotency_key, r.sequence_id, r.created_at
  FROM unnest($2) WITH ORDINALITY AS asked(outbox_id, n)
  CROSS JOIN LATERAL (
    SELECT r.*
    FROM (SELECT r.* FROM {cell}.payment_arrived_keys r WHERE r.outbox_id = asked.outbox_id OFFSET 0) r
    WHERE r.participant_id = ANY ($1 COLLATE "C") AND (
      SELECT a.taken_at FROM {cell}.payment_arrivals a
      WHERE a.bucket = r.bucket AND a.version = r.version) IS NOT NULL
    LIMIT 1) r
$$;
