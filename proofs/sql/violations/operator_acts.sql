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
  -- Older DISPATCHED rows have no code.
  SELECT r.outbox_id, r.state = 'DISPATCHED' AS executed, count(*) FILTER (WHERE r.error_code = 'RESOLVED') AS n, count(*) AS n_older
  FROM archive r
  WHERE r.error_code = 'RESOLVED' OR r.state = 'DISPATCHED' AND r.answers = 0
  GROUP BY r.outbox_id, r.state = 'DISPATCHED'
),
told AS (
  SELECT l.outbox_id, coalesce((l.detail ->> 'executed')::boolean, false) AS executed, count(*) AS n,
    count(*) FILTER (WHERE l.detail ? 'was' AND l.detail ->> 'was' IS DISTINCT FROM CASE WHEN (l.detail ->> 'executed')::boolean THEN 'DISPATCHED'
      WHEN l.detail ->> 'was' = 'CANCELLED' THEN 'CANCELLED' ELSE 'FAILED' END) AS appended
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
UNION ALL
SELECT format('%s: by the log %s acts of evidence appended a row as %s, and the archive has %s such rows', t.outbox_id, t.appended,
  CASE WHEN t.executed THEN 'executed' ELSE 'not executed' END, coalesce(r.n_older, 0))
FROM told t
CROSS JOIN horizon h
LEFT JOIN resolved r ON r.outbox_id = t.outbox_id AND r.executed = t.executed
WHERE t.appended > coalesce(r.n_older, 0) AND (t.outbox_id < h.id) IS NOT TRUE
UNION ALL
SELECT format('%s: the log has an act %s of row %s, and the archive has no such row', l.outbox_id, l.act, l.detail ->> 'attempt_no')
FROM {cell}.payment_operator_log l
CROSS JOIN horizon h
WHERE l.act IN ('REPLAY', 'INQUIRE', 'SKIP_IN_ORDER') AND (l.detail ->> 'attempt_no')::integer > 0
  AND (l.outbox_id < h.id) IS NOT TRUE AND NOT EXISTS (
    SELECT FROM archive r
    WHERE r.outbox_id = l.outbox_id AND r.attempt_no = (l.detail ->> 'attempt_no')::integer AND CASE l.act
      WHEN 'REPLAY' THEN r.state = 'REPLAYED'
      WHEN 'INQUIRE' THEN r.state = 'UNKNOWN' AND r.answers = 0 AND r.error_code = 'ASKED'
      ELSE r.state = l.detail ->> 'state' END)
