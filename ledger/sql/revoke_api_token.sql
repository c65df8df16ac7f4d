-- Takes a token out of force. $1 token_id, $2 reason
SELECT {cell}.revoke_api_token($1, $2)
