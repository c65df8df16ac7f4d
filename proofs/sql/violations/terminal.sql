SELECT CASE WHEN l.state IN ({claim_states})
    THEN format('%s is in pending while its claim %s is open', p.outbox_id, l.attempt_no)
    ELSE format('%s is %s and is in pending', p.outbox_id, l.state) END AS violation
FROM {cell}.payment_outbox_pending p
CROSS JOIN LATERAL (
  SELECT a.state::text AS state, a.attempt_no
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = p.outbox_id AND a.state <> 'LATE_OUTCOME'
  ORDER BY a.attempt_no DESC
  LIMIT 1) l
WHERE l.state NOT IN ({waiting_states})
