-- The pause of a rail ('*': of everything) or of a participant. $1 rail_type, $2 participant_id;
-- null: none
SELECT CASE r.rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || r.rail_type END, r.paused_by, r.paused_at,
  r.pause_reason, r.paused_until
FROM {cell}.payment_rails r
WHERE r.rail_type = $1 AND r.paused
UNION ALL
SELECT 'participant ' || q.participant_id, q.paused_by, q.paused_at, q.pause_reason, q.paused_until
FROM {cell}.payment_paused_participants q
WHERE q.participant_id = $2
