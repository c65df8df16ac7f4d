-- carried_key(participant_id text, idempotency_key text) -> (outbox_id uuid, instruction_id text)
--   The instruction that a participant has enqueued over HTTP under this key in another cell, before it was moved to
--   this one. No row: none. What is carried of an HTTP caller's key is its digest (api_key_digest).
-- reads:   payment_arrived_keys, by its index payment_arrived_keys_api; payment_arrivals.   writes, locks: nothing.
-- called by: api_enqueue, api_list.
CREATE OR REPLACE FUNCTION {cell}.carried_key(participant_id text, idempotency_key text)
RETURNS TABLE (outbox_id uuid, instruction_id text)
LANGUAGE sql STABLE
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT r.outbox_id, r.instruction_id
  FROM (
    SELECT r.* FROM {cell}.payment_arrived_keys r
    WHERE r.idempotency_key LIKE 'api-%' AND r.idempotency_key = {cell}.api_key_digest($1, $2) COLLATE "C" OFFSET 0) r
  WHERE r.participant_id = $1 COLLATE "C" AND (
    SELECT a.taken_at FROM {cell}.payment_arrivals a
    WHERE a.bucket = r.bucket AND a.version = r.version) IS NOT NULL
  LIMIT 1
$$;
