-- Which events of an endpoint the latest act has discarded; empty if an older function wrote the act. $1 endpoint_id
SELECT coalesce(l.detail -> 'first', '[]')
FROM {cell}.payment_operator_log l
WHERE l.act = 'DISCARD_EVENTS' AND l.subject = $1
ORDER BY l.act_id DESC
LIMIT 1
