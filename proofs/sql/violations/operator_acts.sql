-- A replay of what was set aside, and a resolution that agrees with what is
-- recorded, append no row; the others always do.
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
