-- api_tokens()
--   -> (token_id text, name text, participants text[], verbs text[], created_at timestamptz, created_by text,
--       expires_at timestamptz,
--       revoked_at timestamptz, requests_per_minute integer, has_certificate boolean, uses bigint, refused bigint,
--       last_used_at timestamptz, last_refused_at timestamptz)
--   All tokens, newest first, without any data that grants access.
-- reads:   payment_api_tokens, payment_api_uses.   locks: nothing.   called by: operator, readonly, auditor.
CREATE OR REPLACE FUNCTION {cell}.api_tokens()
RETURNS TABLE (token_id text, name text, participants text[], verbs text[], created_at timestamptz, created_by text,
  expires_at timestamptz,
  revoked_at timestamptz, requests_per_minute integer, has_certificate boolean, uses bigint, refused bigint,
  last_used_at timestamptz, last_refused_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, {cell}, pg_temp
SET lock_timeout = '5s'
AS $$
  SELECT t.token_id, t.name, t.participants, t.verbs, t.created_at, t.created_by, t.expires_at, t.revoked_at,
    t.requests_per_minute, t.certificate_sha256 IS NOT NULL, coalesce(u.uses, 0), coalesce(u.refused, 0),
    u.last_used_at, u.last_refused_at
  FROM {cell}.payment_api_tokens t
  LEFT JOIN {cell}.payment_api_uses u ON u.token_id = t.token_id
  ORDER BY t.created_at DESC, t.token_id
$$;
