-- Compares the rows with the memory of a component: see recall_memory.
-- $1 name, $2 beats, $3 the time of the last heartbeat,
-- $4 outbox_id, $5 attempt_no, $6 claimed_at of its last claim; null: none, $7 its own name now
SELECT m.beats_missing, m.claim_missing, m.vouched, m.known, m.outdated, m.awaited, m.awaited_ms, m.patience_ms
FROM {cell}.recall_memory($1, $2, $3, $4, $5, $6, $7) m
