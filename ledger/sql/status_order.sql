-- Lines that wait for an operator, by rail: how many, at most $1, and the one that has done so for longest.
-- Lines to which something has happened since they were advanced last are not counted. $2 limit of rails
SELECT r.rail_type, b.heads, b.oldest[1] AS blocked_since, b.ids[1] AS outbox_id
FROM {cell}.payment_rails r
CROSS JOIN LATERAL (
  SELECT count(*) AS heads, array_agg(w.blocked_since ORDER BY w.blocked_since) AS oldest,
    array_agg(w.outbox_id ORDER BY w.blocked_since) AS ids
  FROM (
    SELECT h.blocked_since, h.outbox_id
    FROM {cell}.v_order_heads h
    WHERE h.rail_type = r.rail_type AND h.blocked_by IS NOT NULL AND NOT h.marked
    ORDER BY h.blocked_since
    LIMIT $1) w) b
WHERE b.heads > 0
ORDER BY r.rail_type
LIMIT $2
