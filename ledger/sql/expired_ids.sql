-- The instructions that expire next, not locked. $1 limit
SELECT e.outbox_id
FROM {cell}.payment_rails r
CROSS JOIN LATERAL (
  SELECT p.outbox_id, p.expires_at
  FROM {cell}.payment_outbox_pending p
  WHERE p.rail_type = r.rail_type AND p.expires_at <= statement_timestamp() AND NOT p.outcome_unknown
    AND p.next_attempt_at < 'infinity'
  ORDER BY p.expires_at
  LIMIT $1) e
ORDER BY e.expires_at
LIMIT $1
