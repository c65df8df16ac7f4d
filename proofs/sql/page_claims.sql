-- The instructions of a page that are in flight, as the reaper would find them.
SELECT m.outbox_id, m.attempt_no
FROM {cell}.payment_outbox_claims f
CROSS JOIN LATERAL unnest(f.outbox_ids, f.attempt_nos) m (outbox_id, attempt_no)
WHERE m.outbox_id >= $1 AND m.outbox_id <= $2
