-- The state of every instruction whose id begins so: PENDING, UNKNOWN or
-- ACCEPTED while it waits, else its last state that is not LATE_OUTCOME. For a run or a test that names its
-- instructions itself; bounded by $2. $1 prefix, $2 limit
SELECT s.outbox_id, s.state
FROM {cell}.supervisor_outbox_status s
WHERE starts_with(s.instruction_id, $1)
LIMIT $2
