-- Returns a dead letter to pending. $1 outbox_id, $2 reason, $3 expires_at or null
SELECT {cell}.replay_payment($1, $2, $3)
