-- Acts of operators on the instructions of a page that name a row of the archive, and the state of that row.
SELECT l.outbox_id, l.act, (l.detail ->> 'attempt_no')::integer AS attempt_no,
  CASE l.act WHEN 'REPLAY' THEN 'REPLAYED' WHEN 'INQUIRE' THEN 'UNKNOWN' ELSE coalesce(l.detail ->> 'state', '') END AS state
FROM {cell}.payment_operator_log l
WHERE l.outbox_id >= $1 AND l.outbox_id <= $2 AND l.act IN ('REPLAY', 'INQUIRE', 'SKIP_IN_ORDER')
  AND (l.detail ->> 'attempt_no')::integer > 0
ORDER BY l.outbox_id, l.acted_at, l.act_id
