-- require_api_token(token_sha256 bytea, certificate bytea, verb text, participant_id text) -> payment_api_tokens
--   Returns the token of a call, if it allows the call (api_token_refusal).
-- errors:  RH030 the token is not in force, RH031 it does not allow this, 25001 above READ COMMITTED.
-- reads:   payment_api_tokens.   locks: nothing.   called by: api functions.
CREATE OR REPLACE FUNCTION {cell}.require_api_token(token_sha256 bytea, certificate bytea, verb text,
  participant_id text)
RETURNS {cell}.payment_api_tokens
LANGUAGE plpgsql
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
DECLARE
  token {cell}.payment_api_tokens;
  why   text;
BEGIN
  PERFORM {cell}.require_fresh_snapshot();
  SELECT t.* INTO token FROM {cell}.payment_api_tokens t WHERE t.token_digest = sha256(require_api_token.token_sha256);
  why := {cell}.api_token_refusal(token, require_api_token.certificate, require_api_token.verb,
    require_api_token.participant_id);
  IF why = 'TOKEN' THEN
    RAISE EXCEPTION USING ERRCODE = 'RH030', MESSAGE = 'the token is not in force',
      COLUMN = 'token', CONSTRAINT = 'IN_FORCE', HINT = 'Ask for a token: railhead token create.';
  ELSIF why IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'RH031',
      MESSAGE = CASE why WHEN 'VERB' THEN 'the token is not for this act'
        ELSE 'the token is not for this participant' END,
      COLUMN = 'token', CONSTRAINT = why, HINT = 'Ask for a token that allows it: railhead token create.';
  END IF;
  RETURN token;
END
$$;
