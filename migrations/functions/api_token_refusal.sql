-- api_token_refusal(token payment_api_tokens, certificate bytea, verb text, participant_id text) -> text
--   Why a token does not allow a call. TOKEN: it is unknown, expired or revoked, or is bound to
--   another certificate. VERB: it is for other verbs. PARTICIPANT: it is for other participants.
--   Null: it allows the call. A null verb is not checked, nor is the participant_id ''.
--
--   The function is one expression, which the planner inlines. It therefore sets no search_path;
--   its callers do.
-- reads, writes, locks: nothing.   called by: api_enqueue, api_events, api_token, require_api_token.
CREATE OR REPLACE FUNCTION {cell}.api_token_refusal(token {cell}.payment_api_tokens, certificate bytea, verb text,
  participant_id text) RETURNS text
LANGUAGE sql VOLATILE
AS $$
  SELECT CASE
    WHEN ($1).token_digest IS NULL OR ($1).revoked_at IS NOT NULL OR ($1).expires_at <= clock_timestamp() THEN 'TOKEN'
    WHEN ($1).certificate_sha256 IS NOT NULL AND ($1).certificate_sha256 IS DISTINCT FROM $2 THEN 'TOKEN'
    WHEN NOT $3 COLLATE "C" = ANY (($1).verbs) THEN 'VERB'
    WHEN $4 IS NULL OR $4 COLLATE "C" <> '' AND NOT $4 COLLATE "C" = ANY (($1).participants) THEN 'PARTICIPANT'
  END
$$;
