-- The rows of a page that contradicted what was said before, and whether an operator has settled that since. Once an
-- operator has, the dead letter may be removed, and another one opened.
SELECT c.outbox_id, c.attempt_no, (
  SELECT true FROM {cell}.payment_operator_log l
  WHERE l.outbox_id = c.outbox_id AND (l.act = 'RESOLVE' OR l.act = 'TRIAGE' AND l.subject = 'resolved')
    -- The clocks of two servers may differ by a minute.
    AND l.acted_at >= c.opened_at - interval '1 minute'
  LIMIT 1) IS NOT NULL AS settled
FROM {cell}.payment_outbox_contradictions c
WHERE c.outbox_id >= $1 AND c.outbox_id <= $2
ORDER BY c.outbox_id, c.attempt_no
