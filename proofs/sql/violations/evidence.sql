-- LATE_OUTCOME rows are evidence themselves and repeat the certainty before them.
WITH {archive},
neighbours AS (
  SELECT r.*, coalesce(lag(r.late) OVER (PARTITION BY r.outbox_id ORDER BY r.attempt_no), false) AS after_late
  FROM archive r
),
steps AS (
  SELECT r.*, coalesce(lag(r.outcome_unknown) OVER (PARTITION BY r.outbox_id ORDER BY r.attempt_no), false) AS was_unknown
  FROM neighbours r
  WHERE NOT r.late
)
SELECT CASE WHEN s.state IN ('DISPATCHED', 'FAILED', 'RETRYABLE')
    THEN format('%s: row %s is %s, and its result is "%s"', s.outbox_id, s.attempt_no, s.state, s.result)
    ELSE format('%s: row %s is %s without an unknown outcome', s.outbox_id, s.attempt_no, s.state) END AS violation
FROM steps s
WHERE s.state = 'DISPATCHED' AND s.result NOT IN ({proves_execution})
  OR s.state = 'FAILED' AND s.result NOT IN ({proves_failure}) AND NOT s.by_operator
    AND NOT (s.error_code = 'EXPIRED' AND s.answers = 0 AND NOT s.was_unknown)
  OR s.state = 'RETRYABLE' AND s.result NOT IN ({proves_retry})
  OR s.state IN ('UNKNOWN', 'ACCEPTED', 'ZOMBIE_REQUEUE') AND NOT s.outcome_unknown
UNION ALL
SELECT format('%s: row %s (%s, result "%s") ends an unknown outcome without evidence', s.outbox_id, s.attempt_no, s.state, s.result)
FROM steps s
WHERE s.was_unknown AND NOT s.outcome_unknown AND NOT s.by_operator
  AND NOT (s.state NOT IN ({claim_states}) AND s.result IN ({settles_earlier}))
  -- A refusal of its only unknown send, which is not sent again. Only late evidence does that.
  AND NOT (s.after_late AND s.state = 'FAILED' AND s.result IN ('REFUSED_TRANSIENT', 'REFUSED_BUSINESS')
    AND s.error_code IN ('NEW_ID_NEEDED', 'BUSINESS_REFUSED'))
UNION ALL
SELECT format('%s: the archive has its outcome as unknown, and its row in pending as not unknown', p.outbox_id)
FROM {cell}.payment_outbox_pending p
JOIN (SELECT DISTINCT ON (s.outbox_id) s.outbox_id, s.outcome_unknown FROM steps s ORDER BY s.outbox_id, s.attempt_no DESC) l
  ON l.outbox_id = p.outbox_id
WHERE l.outcome_unknown AND NOT p.outcome_unknown
