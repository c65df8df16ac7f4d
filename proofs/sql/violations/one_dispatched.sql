SELECT format('%s has %s DISPATCHED rows', a.outbox_id, count(*)) AS violation
FROM {cell}.payment_outbox_attempts a
WHERE a.state = 'DISPATCHED'
GROUP BY a.outbox_id
HAVING count(*) > 1
