-- require_api_payment(token_sha256 bytea, certificate bytea, verb text, outbox_id uuid) -> payment_api_tokens
--   Returns the token of a call about an instruction, if it allows the call.
-- errors:  RH030 the token is not in force, RH031 it is not for this verb, RH010 the instruction
--          does not exist, or is another participant's: the caller can't distinguish these; RH020 it was
--          enqueued in another cell, before its participant was moved to this one; 25001 above READ COMMITTED.
-- reads:   payment_api_tokens, payment_outbox_keys, and what carried_payments reads.   locks: nothing.
-- called by: api_attempts, api_cancel, api_cancel_status.
CREATE OR REPLACE FUNCTION {cell}.require_api_payment(token_sha256 bytea, certificate bytea, verb text, outbox_id uuid)
RETURNS {cell}.payment_api_tokens
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  token {cell}.payment_api_tokens := {cell}.require_api_token(token_sha256, certificate, verb, '');
BEGIN
  IF NOT EXISTS (
    SELECT FROM {cell}.payment_outbox_keys k
    WHERE k.outbox_id = require_api_payment.outbox_id AND k.participant_id = ANY (token.participants))
  THEN
    IF EXISTS (SELECT FROM {cell}.carried_payments(token.participants, ARRAY[require_api_payment.outbox_id])) THEN
      RAISE EXCEPTION USING ERRCODE = 'RH020',
        MESSAGE = 'the instruction was enqueued in another cell, before its participant was moved to this one',
        HINT = 'Its payment stayed there. Nothing was changed: make this call in the cell that has it.';
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such instruction',
      HINT = 'Check the id, and that the token is for its participant.';
  END IF;
  RETURN token;
END
$$;
