-- revoke_api_token(token_id text, reason text) -> boolean
--   Takes a token out of force: the next statement that uses it is refused. Returns true if it was
--   not revoked before.
-- errors:  RH002 without a reason, RH010 no such token, 55P03 after 5 s of waiting for a lock.
-- writes:  payment_api_tokens, payment_operator_log.   locks: the row.   called by: operator.
CREATE OR REPLACE FUNCTION {cell}.revoke_api_token(token_id text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
DECLARE
  was_in_force boolean;
BEGIN
  PERFORM {cell}.require_reason(revoke_api_token.reason);
  UPDATE {cell}.payment_api_tokens t SET revoked_at = clock_timestamp()
  WHERE t.token_id = revoke_api_token.token_id COLLATE "C" AND t.revoked_at IS NULL;
  was_in_force := FOUND;
  IF NOT was_in_force AND NOT EXISTS (SELECT FROM {cell}.payment_api_tokens t
    WHERE t.token_id = revoke_api_token.token_id COLLATE "C") THEN
    RAISE EXCEPTION USING ERRCODE = 'RH010', MESSAGE = 'there is no such token',
      HINT = 'See them all: railhead token list.';
  END IF;
  PERFORM {cell}.log_operator_act('REVOKE_TOKEN', revoke_api_token.token_id, NULL, revoke_api_token.reason);
  RETURN was_in_force;
END
$$;
