-- api_cancel(token_sha256 bytea, certificate bytea, outbox_id uuid, reason text) -> integer
--   Cancels, as cancel_payment does, an instruction of one of the token's participants for a caller
--   over HTTP. The operator log names the token and the reason. Builds from before migration 50 call it.
-- errors:  RH030 the token is not in force, RH031 it is not for cancelling, RH010 the instruction
--          does not exist, or is another participant's, RH020 it is in another cell (require_api_payment), 25001 above
--          READ COMMITTED;
--          and those of cancel_payment.
-- reads:   what require_api_payment and cancel_payment read.
-- writes, locks: as cancel_payment.   called by: api.
CREATE OR REPLACE FUNCTION {cell}.api_cancel(token_sha256 bytea, certificate bytea, outbox_id uuid, reason text)
  RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  token CONSTANT {cell}.payment_api_tokens := {cell}.require_api_payment(token_sha256, certificate, 'CANCEL',
    api_cancel.outbox_id);
BEGIN
  PERFORM {cell}.require_reason(api_cancel.reason);
  RETURN {cell}.cancel_payment(api_cancel.outbox_id, format('token %s (%s): %s', token.token_id, token.name,
    left(api_cancel.reason, 500)));
END
$$;
