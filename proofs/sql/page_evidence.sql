-- The evidence by which operators resolved the instructions of a page, oldest first.
SELECT l.outbox_id, l.actor, coalesce((l.detail ->> 'executed')::boolean, false) AS executed,
  coalesce(l.detail ->> 'document', '') AS document,
    coalesce((l.detail ->> 'rail_silent')::boolean, false) AS rail_silent,
  coalesce((l.detail ->> 'against_row')::integer, 0) AS against_row,
  -- Another payment that the rail executed under the reference of the evidence, in the archive or
  -- in a month that has left it.
  coalesce(
    (SELECT other.outbox_id
    FROM {cell}.payment_outbox_attempts other
    WHERE other.rail_reference = l.detail ->> 'rail_reference' AND other.outbox_id <> l.outbox_id
      AND (other.state = 'DISPATCHED' OR other.result = 'EXECUTED')
      AND other.rail_type = (
        SELECT own.rail_type FROM {cell}.payment_outbox_attempts own WHERE own.outbox_id = l.outbox_id LIMIT 1)
    LIMIT 1),
    (SELECT other.outbox_id
    FROM {cell}.payment_retired_references other
    WHERE other.rail_reference = l.detail ->> 'rail_reference' AND other.outbox_id <> l.outbox_id
      AND other.rail_type = (
        SELECT own.rail_type FROM {cell}.payment_outbox_attempts own WHERE own.outbox_id = l.outbox_id LIMIT 1)
    LIMIT 1)) AS same_reference
FROM {cell}.payment_operator_log l
WHERE l.outbox_id >= $1 AND l.outbox_id <= $2 AND l.act = 'RESOLVE'
ORDER BY l.outbox_id, l.acted_at, l.act_id
