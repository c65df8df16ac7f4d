-- LATE_OUTCOME may follow anything and changes nothing by itself.
WITH {archive},
-- The permitted transitions; '' is the beginning.
legal (last, next) AS (
  VALUES
{transitions}
),
-- Transitions that only an operator's act permits.
resolutions (last, next) AS (
  VALUES
{resolutions}
),
steps AS (
  SELECT r.outbox_id, r.attempt_no, r.state, r.by_operator,
    coalesce(lag(r.state) OVER (PARTITION BY r.outbox_id ORDER BY r.attempt_no), '') AS last
  FROM archive r
  WHERE NOT r.late
)
SELECT format('%s: row %s is %s after %s', s.outbox_id, s.attempt_no, s.state, coalesce(nullif(s.last, ''), 'nothing')) AS violation
FROM steps s
WHERE NOT EXISTS (SELECT FROM legal l WHERE l.last = s.last AND l.next = s.state)
  AND NOT (s.by_operator AND EXISTS (SELECT FROM resolutions l WHERE l.last = s.last AND l.next = s.state))
