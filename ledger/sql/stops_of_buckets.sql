-- The pauses and closed gates in force here that stop participants of some buckets, in words. $1 buckets
SELECT s.stop
FROM (
  SELECT 1 AS place, r.rail_type AS name,
    CASE r.rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || r.rail_type END || ' is paused' AS stop
  FROM {cell}.payment_rails r
  WHERE r.paused
  UNION ALL
  SELECT 2, h.participant_id, format('participant %s is paused', quote_literal(h.participant_id))
  FROM {cell}.payment_paused_participants h
  WHERE {cell}.cell_bucket(h.participant_id) = ANY ($1::integer[])
  UNION ALL
  SELECT 3, g.name, CASE g.scope WHEN 'cell' THEN 'enqueue is closed for everything'
    ELSE format('enqueue is closed for %s %s', g.scope, quote_literal(g.name)) END
  FROM {cell}.payment_closed_gates g
  WHERE g.scope <> 'participant' OR {cell}.cell_bucket(g.name) = ANY ($1::integer[])) s
ORDER BY s.place, s.name
LIMIT 20
