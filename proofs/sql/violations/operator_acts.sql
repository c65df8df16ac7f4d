-- A replay of a quarantined row, and a resolution that agrees with the record,
-- append no row; the others always do.
WITH {archive},
{horizon},
appended AS (
  SELECT r.outbox_id, x.act, count(*) AS n
  FROM archive r
  CROSS JOIN LATERAL (
    SELECT CASE WHEN r.state = 'CANCELLED' THEN 'CANCEL' WHEN r.state = 'REPLAYED' THEN 'REPLAY'
      WHEN r.state = 'UNKNOWN' AND r.answers = 0 AND r.error_code = 'ASKED' THEN 'INQUIRE'
      WHEN r.error_code = 'RESOLVED' THEN 'RESOLVE' END AS act) x
  WHERE x.act IS NOT NULL
  GROUP BY r.outbox_id, x.act
),
resolved AS (
  SELECT r.outbox_id, r.state = 'DISPATCHED' AS executed, count(*) AS n
  FROM archive r
  WHERE r.error_code = 'RESOLVED'
  GROUP BY r.outbox_id, r.state = 'DISPATCHED'
),
told AS (
  SELECT l.outbox_id, coalesce((l.detail ->> 'executed')::boolean, false) AS executed, count(*) AS n
  FROM {cell}.payment_operator_log l
  WHERE l.act = 'RESOLVE' AND l.outbox_id IS NOT NULL
  GROUP BY l.outbox_id, coalesce((l.detail ->> 'executed')::boolean, false)
),
compared AS (
  SELECT coalesce(r.outbox_id, o.outbox_id) AS outbox_id, coalesce(r.act, o.act) AS act, coalesce(r.n, 0) AS rows, coalesce(o.n, 0) AS acts
  FROM appended r
  FULL JOIN acts o ON o.outbox_id = r.outbox_id AND o.act = r.act
)
SELECT CASE WHEN c.rows > c.acts
    THEN format('%s: %s rows of %s in the archive, %s acts in the log', c.outbox_id, c.rows, c.act, c.acts)
    ELSE format('%s: %s acts of %s in the log, %s rows in the archive', c.outbox_id, c.acts, c.act, c.rows) END AS violation
FROM compared c
CROSS JOIN horizon h
WHERE c.rows > c.acts
  OR c.act IN ('CANCEL', 'INQUIRE') AND c.rows < c.acts AND (c.outbox_id < h.id) IS NOT TRUE
UNION ALL
SELECT format('%s: %s rows were resolved as %s, and the log has %s such acts', r.outbox_id, r.n,
  CASE WHEN r.executed THEN 'executed' ELSE 'not executed' END, coalesce(t.n, 0))
FROM resolved r
LEFT JOIN told t ON t.outbox_id = r.outbox_id AND t.executed = r.executed
WHERE r.n > coalesce(t.n, 0)
