-- Cancels a pending instruction that was never executed. $1 SHA-256 of the token, $2 of its
-- certificate's key, $3 outbox_id, $4 reason
SELECT {cell}.api_cancel($1, $2, $3, $4)
