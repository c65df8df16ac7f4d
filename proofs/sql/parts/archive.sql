acts AS (
  SELECT l.outbox_id, l.act, count(*) AS n
  FROM {cell}.payment_operator_log l
  WHERE l.outbox_id IS NOT NULL
  GROUP BY l.outbox_id, l.act
),
-- Every row of the archive, and whether the log has an operator's act for it.
archive AS (
  SELECT a.outbox_id, a.attempt_no, a.state::text AS state, coalesce(a.answers_attempt_no, 0) AS answers, coalesce(a.result, '') AS result,
    coalesce(a.error_code, '') AS error_code, a.outcome_unknown, a.state = 'LATE_OUTCOME' AS late,
    coalesce(a.answers_attempt_no, 0) = 0 AND o.outbox_id IS NOT NULL AS by_operator
  FROM {cell}.payment_outbox_attempts a
  LEFT JOIN acts o ON o.outbox_id = a.outbox_id AND o.act = CASE
    WHEN a.state = 'REPLAYED' THEN 'REPLAY'
    WHEN a.state = 'CANCELLED' THEN 'CANCEL'
    WHEN a.state = 'UNKNOWN' AND a.error_code = 'ASKED' THEN 'INQUIRE'
    WHEN a.error_code = 'RESOLVED' OR a.state = 'DISPATCHED' THEN 'RESOLVE' END
)
