-- The pending row of an instruction. $1 outbox_id
SELECT p.attempt_count, nullif(p.next_attempt_at, 'infinity') AS next_attempt_at,
  p.next_attempt_at = 'infinity' AS quarantine,
  CASE WHEN isfinite(p.next_attempt_at)
    THEN (extract(epoch FROM p.next_attempt_at - clock_timestamp()) * 1000)::bigint END AS due_in_ms,
  p.next_action, p.outcome_unknown, p.provisional, p.first_sent_at, p.last_sent_at, p.send_count, p.inquiry_count
FROM {cell}.payment_outbox_pending p
WHERE p.outbox_id = $1
