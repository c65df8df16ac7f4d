-- What an act on a payment compares with what the person saw: the last row and the dead letter. $1 outbox_id
SELECT coalesce((SELECT max(a.attempt_no) FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = i.outbox_id), 0),
  d.reason, d.opened_at, d.updated_at
FROM (SELECT $1::uuid AS outbox_id) i
LEFT JOIN {cell}.payment_dead_letters d ON d.outbox_id = i.outbox_id
