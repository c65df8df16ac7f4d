-- The rights of a token. $1 its SHA-256
SELECT t.token_id, t.name, t.participants, t.verbs, t.expires_at, t.requests_per_minute, t.certificate_sha256,
  t.in_force
FROM {cell}.api_token($1) t
