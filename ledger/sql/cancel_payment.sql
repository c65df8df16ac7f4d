-- Cancels a pending instruction that was never executed, and says whether another cell has its key, too, or may have it.
-- $1 outbox_id, $2 reason
SELECT c.attempt_no, o.other_id, o.cell
FROM (SELECT {cell}.cancel_payment($1, $2) AS attempt_no OFFSET 0) c
LEFT JOIN LATERAL (SELECT e.other_id, e.cell FROM {cell}.other_cell_key($1) e LIMIT 1) o ON true
