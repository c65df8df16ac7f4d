-- Acts of operators on an instruction, newest first. $1 outbox_id, $2 limit
SELECT l.act, l.actor, coalesce(l.person, '') AS person, l.acted_at, l.reason, l.detail::text
FROM {cell}.payment_operator_log l
WHERE l.outbox_id = $1
ORDER BY l.acted_at DESC
LIMIT $2
