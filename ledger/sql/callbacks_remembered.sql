-- Compares the rows with the memory of a callback endpoint, whose row is named by its kind and its name: see
-- recall_memory. The arguments are those of remembered.sql
SELECT m.beats_missing, m.claim_missing, m.vouched, m.known, m.outdated, m.awaited, m.awaited_ms, m.patience_ms
FROM {cell}.recall_memory('callback:' || $1, $2, $3, $4, $5, $6, 'callback:' || $7) m
