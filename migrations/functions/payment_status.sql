-- payment_status(instruction_id text, idempotency_key text)
--   -> (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, certainty text,
--       attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
--       rail_code text, rail_reference text, waits_for_person boolean)
--   The status of an instruction that was enqueued by the caller's login, or by one that shares a
--   role with it (logins_sharing_a_role), as in payment_status_batch. Returns no row if it was not
--   enqueued, or was enqueued by another login.
-- errors:  none of its own.
-- reads:   what payment_status_batch reads.   locks: nothing.   called by: ingest.
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
