-- The head of each line of a participant, of those rails whose profile in force orders it, the blocked ones first.
-- $1 participant_id, $2 limit
SELECT h.rail_type, h.outbox_id, h.sequence_id, h.blocked_by, h.blocked_since, h.ready_at
FROM {cell}.v_order_heads h
WHERE h.participant_id = $1
ORDER BY h.blocked_since, h.rail_type
LIMIT $2
