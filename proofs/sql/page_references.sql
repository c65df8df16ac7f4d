-- The instructions of a page that were dispatched under a reference of the rail under which an earlier one was, with
-- that one: the first of those that were found. References that operators gave are left to page_evidence.
-- $3 is the lowest id that is looked at: of the partitions before it none is probed. A rail may give one
-- reference to any number of instructions, so no more than 32 rows of each are read.
SELECT a.outbox_id, a.rail_type, a.rail_reference, earlier.outbox_id AS earlier
FROM {cell}.payment_outbox_attempts a
CROSS JOIN LATERAL (
  SELECT same.outbox_id
  FROM (
    SELECT o.outbox_id, o.rail_type, o.state, o.error_code
    FROM {cell}.payment_outbox_attempts o
    WHERE o.rail_reference = a.rail_reference AND o.outbox_id >= $3 AND o.outbox_id <= $2
    LIMIT 32) same
  WHERE same.outbox_id < a.outbox_id AND same.rail_type = a.rail_type AND same.state = 'DISPATCHED'
    AND same.error_code IS DISTINCT FROM 'RESOLVED'
  ORDER BY same.outbox_id
  LIMIT 1) earlier
WHERE a.outbox_id >= $1 AND a.outbox_id <= $2 AND a.state = 'DISPATCHED' AND a.rail_reference IS NOT NULL
  AND a.error_code IS DISTINCT FROM 'RESOLVED'
ORDER BY a.outbox_id
