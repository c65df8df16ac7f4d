-- Acts of operators on the instructions of a page, by kind of act.
SELECT l.outbox_id, l.act, count(*)::integer
FROM {cell}.payment_operator_log l
WHERE l.outbox_id >= $1 AND l.outbox_id <= $2
GROUP BY l.outbox_id, l.act
