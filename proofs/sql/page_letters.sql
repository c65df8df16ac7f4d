-- The dead letters of a page, and whether the log has an act of an operator that closed each as it is: one
-- since it was opened last, and since the payment failed last. The clocks of two servers may differ by a minute.
SELECT d.outbox_id, d.reason, d.status, EXISTS (
  SELECT FROM {cell}.payment_operator_log l
  WHERE l.outbox_id = d.outbox_id AND (l.act = 'RESOLVE' OR l.act = 'TRIAGE' AND l.subject = 'resolved')
    AND l.acted_at >= greatest(d.opened_at, (
      SELECT max(a.created_at) FROM {cell}.payment_outbox_attempts a
      WHERE a.outbox_id = d.outbox_id AND a.state = 'FAILED' AND a.error_code IS DISTINCT FROM 'RESOLVED'))
      - interval '1 minute') AS closed_by_act
FROM {cell}.payment_dead_letters d
WHERE d.outbox_id >= $1 AND d.outbox_id <= $2
