-- How many sends of a payment may have reached its rail, and how many of them were made after a replay. An act that
-- names no row compares it. A late row that answers no claim here may be of a send that a restore forgot, and counts.
-- $1 outbox_id
WITH a AS MATERIALIZED (
  SELECT t.attempt_no, t.state, t.result, t.answers_attempt_no
  FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = $1
),
sends AS (
  SELECT s.attempt_no
  FROM a s
  WHERE s.state = 'DISPATCHING'
    AND (s.attempt_no IN (SELECT n.answers_attempt_no FROM a n
      WHERE n.result IN ({left_nothing_results}) AND n.state <> 'LATE_OUTCOME')) IS NOT TRUE
    OR s.state = 'LATE_OUTCOME' AND s.answers_attempt_no IS NULL
)
SELECT count(*), count(*) FILTER (WHERE s.attempt_no > (SELECT min(r.attempt_no) FROM a r WHERE r.state = 'REPLAYED'))
FROM sends s
