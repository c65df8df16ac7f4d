-- Acts of operators since an id, newest first.
-- $1 the lowest act_id, $2 actor, $3 act, $4 subject, $5 outbox_id, $6 person, $7 an act_id that they are below;
-- null: any. $8 limit
SELECT l.act_id, l.acted_at, l.actor, coalesce(l.person, '') AS person, l.act, l.subject, l.outbox_id, l.reason,
  l.detail::text
FROM {cell}.payment_operator_log l
WHERE l.act_id >= $1::uuid
  AND ($2::text IS NULL OR l.actor = $2)
  AND ($3::text IS NULL OR l.act = $3)
  AND ($4::text IS NULL OR l.subject = $4)
  AND ($5::uuid IS NULL OR l.outbox_id = $5)
  AND ($6::text IS NULL OR l.person = $6)
  AND ($7::uuid IS NULL OR l.act_id < $7)
ORDER BY l.act_id DESC
LIMIT $8
