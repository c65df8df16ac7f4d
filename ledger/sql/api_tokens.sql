-- All tokens, newest first. $1 limit
SELECT t.token_id, t.name, t.participants, t.verbs, t.created_at, t.created_by, t.expires_at, t.revoked_at,
  t.requests_per_minute, t.has_certificate, t.uses, t.refused, t.last_used_at, t.last_refused_at
FROM {cell}.api_tokens() t
LIMIT $1
