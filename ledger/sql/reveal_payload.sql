-- Logs that a payload is revealed, and returns the act. $1 outbox_id, $2 reason
SELECT {cell}.reveal_payload($1, $2)
