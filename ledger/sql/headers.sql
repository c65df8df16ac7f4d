-- The headers of an instruction, from where it waits or from its latest claim.
-- $1 outbox_id
(SELECT p.headers::text
 FROM {cell}.payment_outbox_pending p
 WHERE p.outbox_id = $1)
UNION ALL
(SELECT a.headers::text
 FROM {cell}.payment_outbox_attempts a
 WHERE a.outbox_id = $1 AND a.headers IS NOT NULL
 ORDER BY a.attempt_no DESC
 LIMIT 1)
LIMIT 1
