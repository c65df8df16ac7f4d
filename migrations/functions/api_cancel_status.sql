-- api_cancel_status(token_sha256 bytea, certificate bytea, outbox_id uuid, reason text)
--   -> (replayed boolean, instruction_id text, participant_id text, idempotency_key text, on_behalf_of text,
--       and the other columns of payment_status from sequence_id on)
--   Cancels as api_cancel does, and returns the status of the instruction as of the same transaction,
--   for which the right to cancel is enough. If the instruction is CANCELLED already, its status is
--   returned with replayed true, and nothing is changed. idempotency_key is the caller's own key.
-- errors:  those of api_cancel; 55P03 after 5 s of waiting for a lock.
-- reads:   payment_outbox_keys, payment_api_calls, and what require_api_payment, payment_outbox_state, cancel_payment
--          and status_of_payments read.
-- writes:  as cancel_payment.   locks: the keys row, then the pending row.   called by: api.
CREATE OR REPLACE FUNCTION {cell}.api_cancel_status(token_sha256 bytea, certificate bytea, outbox_id uuid, reason text)
RETURNS TABLE (replayed boolean, instruction_id text, participant_id text, idempotency_key text, on_behalf_of text,
  sequence_id bigint, created_at timestamptz, state text, certainty text,
  attempts integer, changed_at timestamptz, next_attempt_at timestamptz, error_code text,
  rail_code text, rail_reference text, waits_for_person boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
SET enable_seqscan = off
SET plan_cache_mode = force_generic_plan
SET jit = off
AS $$
DECLARE
  token CONSTANT {cell}.payment_api_tokens := {cell}.require_api_payment(token_sha256, certificate, 'CANCEL',
    api_cancel_status.outbox_id);
BEGIN
  PERFORM {cell}.require_reason(api_cancel_status.reason);
  -- Of two calls at once, the second waits here, and finds what the first one has done.
  PERFORM {cell}.lock_payment(api_cancel_status.outbox_id);
  replayed := coalesce({cell}.payment_outbox_state(api_cancel_status.outbox_id) = 'CANCELLED', false);
  IF NOT replayed THEN
    PERFORM {cell}.cancel_payment(api_cancel_status.outbox_id, format('token %s (%s): %s', token.token_id, token.name,
      left(api_cancel_status.reason, 500)));
  END IF;
  RETURN QUERY
  SELECT api_cancel_status.replayed, k.instruction_id, k.participant_id, coalesce(c.idempotency_key, k.idempotency_key),
    c.on_behalf_of, s.sequence_id, s.created_at, s.state, s.certainty, s.attempts, s.changed_at, s.next_attempt_at,
    s.error_code, s.rail_code, s.rail_reference, s.waits_for_person
  FROM {cell}.status_of_payments(ARRAY[api_cancel_status.outbox_id]) s
  JOIN {cell}.payment_outbox_keys k ON k.outbox_id = s.outbox_id
  LEFT JOIN {cell}.payment_api_calls c ON c.outbox_id = s.outbox_id;
END
$$;
