-- Participants whose instructions are not claimed, the last paused one first. $1 limit
SELECT 'participant ' || q.participant_id, q.paused_by, q.paused_at, q.pause_reason, q.paused_until
FROM {cell}.payment_paused_participants q
ORDER BY q.paused_at DESC
LIMIT $1
