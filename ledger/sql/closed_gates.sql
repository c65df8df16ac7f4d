-- The closed gates, the last closed one first. $1 scope, $2 name, null: all; $3 limit
SELECT g.scope, g.name, g.closed_by, g.closed_at, g.close_reason, g.closed_until
FROM {cell}.payment_closed_gates g
WHERE ($1::text IS NULL OR g.scope = $1) AND ($2::text IS NULL OR g.name = $2)
ORDER BY g.closed_at DESC
LIMIT $3
