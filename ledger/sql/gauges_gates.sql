-- The number of closed gates by scope: at most every rail, 100 participants and the cell.
SELECT g.scope, count(*)
FROM {cell}.payment_closed_gates g
GROUP BY g.scope
