-- api_token(token_sha256 bytea)
--   -> (token_id text, name text, participants text[], verbs text[], expires_at timestamptz,
--       requests_per_minute integer, certificate_sha256 bytea, in_force boolean)
--   The rights of a token, as its bearer may see them. Returns no row if the token is unknown.
-- errors:  25001 above READ COMMITTED.
-- reads:   payment_api_tokens.   locks: nothing.   called by: api.
CREATE OR REPLACE FUNCTION {cell}.api_token(token_sha256 bytea)
RETURNS TABLE (token_id text, name text, participants text[], verbs text[], expires_at timestamptz,
  requests_per_minute integer, certificate_sha256 bytea, in_force boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
AS $$
  SELECT {cell}.require_fresh_snapshot();
  SELECT t.token_id, t.name, t.participants, t.verbs, t.expires_at, t.requests_per_minute, t.certificate_sha256,
    {cell}.api_token_refusal(t, t.certificate_sha256, NULL, '') IS NULL
  FROM {cell}.payment_api_tokens t
  WHERE t.token_digest = sha256($1)
$$;
