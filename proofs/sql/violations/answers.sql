WITH {archive},
-- astray: the row answers a row that is no claim before it. It is reported even if it is
-- LATE_OUTCOME, which is skipped otherwise.
aimed AS (
  SELECT r.*, r.answers <> 0 AND (c.outbox_id IS NULL OR c.state NOT IN ({claim_states}) OR c.attempt_no >= r.attempt_no) AS astray
  FROM archive r
  LEFT JOIN archive c ON c.outbox_id = r.outbox_id AND c.attempt_no = r.answers
),
steps AS (
  SELECT a.*,
    max(a.attempt_no) FILTER (WHERE a.astray OR NOT a.late)
      OVER (PARTITION BY a.outbox_id ORDER BY a.attempt_no ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last_no,
    coalesce(lag(a.late AND NOT a.astray) OVER (PARTITION BY a.outbox_id ORDER BY a.attempt_no), false) AS after_late
  FROM aimed a
),
judged AS (
  SELECT s.*, coalesce(l.state IN ({claim_states}), false) AS open_claim
  FROM steps s
  LEFT JOIN archive l ON l.outbox_id = s.outbox_id AND l.attempt_no = s.last_no
)
SELECT v.violation
FROM judged j
CROSS JOIN LATERAL (
  SELECT CASE
    WHEN j.astray THEN
      format('%s: row %s answers row %s, which is no claim before it', j.outbox_id, j.attempt_no, j.answers)
    WHEN j.late THEN NULL
    WHEN j.state IN ({claim_states}) THEN
      CASE WHEN j.open_claim THEN format('%s: row %s claims while claim %s is open', j.outbox_id, j.attempt_no, j.last_no) END
    WHEN j.answers <> 0 THEN
      -- Late evidence may answer a claim again that was answered before.
      CASE WHEN j.state NOT IN ({answering_states}) OR j.answers IS DISTINCT FROM j.last_no AND NOT j.after_late
        THEN format('%s: row %s (%s) answers claim %s, which is answered already', j.outbox_id, j.attempt_no, j.state, j.answers) END
    WHEN j.open_claim THEN
      format('%s: row %s (%s) follows the open claim %s and does not answer it', j.outbox_id, j.attempt_no, j.state, j.last_no)
    WHEN j.state IN ('CANCELLED', 'REPLAYED', 'PARKED')
      OR j.state = 'FAILED' AND (j.error_code = 'EXPIRED' OR j.after_late OR j.by_operator)
      OR j.state = 'DISPATCHED' AND (j.after_late OR j.by_operator)
      OR j.state = 'UNKNOWN' AND j.error_code = 'ASKED' AND j.by_operator THEN NULL
    ELSE format('%s: row %s (%s) answers no claim', j.outbox_id, j.attempt_no, j.state)
  END AS violation) v
WHERE v.violation IS NOT NULL
