-- What expires next, unlocked. $1 limit
SELECT p.outbox_id
FROM {cell}.payment_outbox_pending p
WHERE p.expires_at <= statement_timestamp() AND NOT p.outcome_unknown
  AND p.next_attempt_at < 'infinity'
ORDER BY p.expires_at
LIMIT $1
