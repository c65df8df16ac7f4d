-- What a token is for. $1 SHA-256 of it
SELECT t.token_id, t.name, t.participants, t.verbs, t.expires_at, t.requests_per_minute, t.certificate_sha256, t.in_force
FROM {cell}.api_token($1) t
