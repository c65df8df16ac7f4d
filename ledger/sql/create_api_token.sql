-- Puts a token in force. $1 SHA-256 of its SHA-256, $2 name, $3 participants, $4 verbs, $5 expires_at, $6 reason,
-- $7 requests a minute or null, $8 SHA-256 of the certificate's key or null
SELECT {cell}.create_api_token($1, $2, $3, $4, $5, $6, $7, $8)
