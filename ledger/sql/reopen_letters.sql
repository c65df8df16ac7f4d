-- Opens the dead letter of quarantined pending rows that have none: a copy of such a row was put
-- back, and nothing else would ever handle it. $1 limit
WITH aside AS MATERIALIZED (
  SELECT q.outbox_id, {cell}.put_back_after(q.outbox_id) IS NOT NULL AS put_back
  FROM {cell}.payment_rails r
  CROSS JOIN (VALUES (0::smallint), (1::smallint), (2::smallint)) AS level(priority)
  CROSS JOIN LATERAL (
    SELECT p.outbox_id
    FROM {cell}.payment_outbox_pending p
    WHERE p.rail_type = r.rail_type AND p.priority = level.priority AND p.next_attempt_at >= 'infinity'
      AND NOT EXISTS (
        SELECT FROM {cell}.payment_dead_letters d
        WHERE d.outbox_id = p.outbox_id AND d.status NOT IN ({closed_letters}))
    ORDER BY p.next_attempt_at
    LIMIT $1) q
  LIMIT $1
),
letters AS (
  SELECT {cell}.open_dead_letters(array_agg(a.outbox_id), array_agg('UNCLAIMABLE'::text),
    array_agg(CASE WHEN a.put_back THEN 'PUT_BACK' ELSE 'NO_LETTER' END))
  FROM aside a
  HAVING count(*) > 0
)
SELECT a.outbox_id
FROM aside a
LEFT JOIN letters l ON true
