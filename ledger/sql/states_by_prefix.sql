-- The state of every instruction whose id begins with the prefix: PENDING, UNKNOWN or ACCEPTED
-- while it is pending, otherwise its last state that is not LATE_OUTCOME. It is for a run or a test
-- that chooses the ids of its instructions. $1 prefix, $2 limit
SELECT s.outbox_id, s.state
FROM {cell}.supervisor_outbox_status s
WHERE starts_with(s.instruction_id, $1)
LIMIT $2
