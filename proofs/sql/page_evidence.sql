-- The evidence by which people resolved the instructions of a page, oldest first.
SELECT l.outbox_id, l.actor, coalesce((l.detail ->> 'executed')::boolean, false) AS executed,
  coalesce(l.detail ->> 'document', '') AS document, coalesce((l.detail ->> 'rail_silent')::boolean, false) AS rail_silent,
  coalesce((l.detail ->> 'against_row')::integer, 0) AS against_row
FROM {cell}.payment_operator_log l
WHERE l.outbox_id > $1 AND l.outbox_id <= $2 AND l.act = 'RESOLVE'
ORDER BY l.outbox_id, l.acted_at, l.act_id
