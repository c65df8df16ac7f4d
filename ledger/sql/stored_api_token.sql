-- What is stored of a token, for its owner, who may put it in force in another cell. $1 token_id
SELECT t.token_digest, t.name, t.participants, t.verbs, t.expires_at, t.requests_per_minute, t.certificate_sha256,
  t.revoked_at
FROM {cell}.payment_api_tokens t
WHERE t.token_id = $1 COLLATE "C"
