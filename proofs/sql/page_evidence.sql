-- The evidence by which operators resolved the instructions of a page, oldest first.
SELECT l.outbox_id, l.actor, coalesce((l.detail ->> 'executed')::boolean, false) AS executed,
  coalesce(l.detail ->> 'document', '') AS document,
    coalesce((l.detail ->> 'rail_silent')::boolean, false) AS rail_silent,
  coalesce((l.detail ->> 'against_row')::integer, 0) AS against_row,
  -- Evidence that differs from the state before it appended a row.
  l.detail ? 'was' AND l.detail ->> 'was' IS DISTINCT FROM CASE WHEN (l.detail ->> 'executed')::boolean THEN 'DISPATCHED'
    WHEN l.detail ->> 'was' = 'CANCELLED' THEN 'CANCELLED' ELSE 'FAILED' END AS appended,
  -- Another payment that the rail executed under the reference of the evidence, in the archive or in a month that
  -- has left it. Evidence of an older build may have characters that are not seen, or blanks around: it is compared
  -- without them too, also with other such evidence.
  coalesce(
    (SELECT other.outbox_id
    FROM {cell}.payment_outbox_attempts other
    WHERE other.rail_reference IN (named.reference, named.seen) AND other.outbox_id <> l.outbox_id
      AND (other.state = 'DISPATCHED' OR other.result = 'EXECUTED') AND other.rail_type = own.rail_type
    LIMIT 1),
    (SELECT other.outbox_id
    FROM {cell}.payment_retired_references other
    WHERE other.rail_reference IN (named.reference, named.seen) AND other.outbox_id <> l.outbox_id
      AND other.rail_type = own.rail_type
    LIMIT 1),
    -- Evidence that said the same as the state of its payment has no row.
    (SELECT other.outbox_id
    FROM {cell}.payment_operator_log other
    WHERE other.act = 'RESOLVE' AND (other.detail ->> 'rail_reference') COLLATE "C" IN (named.reference, named.seen)
      AND other.outbox_id <> l.outbox_id AND other.detail ->> 'executed' = 'true' AND EXISTS (
        SELECT FROM {cell}.payment_outbox_attempts a
        WHERE a.outbox_id = other.outbox_id AND a.rail_type = own.rail_type)
    LIMIT 1),
    CASE WHEN named.reference <> named.seen THEN (
      SELECT other.outbox_id
      FROM {cell}.payment_operator_log other
      WHERE other.act = 'RESOLVE' AND other.outbox_id <> l.outbox_id AND other.detail ->> 'executed' = 'true'
        AND btrim(regexp_replace(regexp_replace(other.detail ->> 'rail_reference', E'[{blanks}]', ' ', 'g'), E'[{unseen}]', '', 'g')) = named.seen
        AND EXISTS (
          SELECT FROM {cell}.payment_outbox_attempts a
          WHERE a.outbox_id = other.outbox_id AND a.rail_type = own.rail_type)
      LIMIT 1) END) AS same_reference
FROM {cell}.payment_operator_log l
CROSS JOIN LATERAL (
  SELECT l.detail ->> 'rail_reference' COLLATE "C" AS reference,
    btrim(regexp_replace(regexp_replace(l.detail ->> 'rail_reference' COLLATE "C", E'[{blanks}]', ' ', 'g'),
      E'[{unseen}]', '', 'g')) COLLATE "C" AS seen) named
LEFT JOIN LATERAL (
  SELECT a.rail_type FROM {cell}.payment_outbox_attempts a WHERE a.outbox_id = l.outbox_id LIMIT 1) own ON true
WHERE l.outbox_id >= $1 AND l.outbox_id <= $2 AND l.act = 'RESOLVE'
ORDER BY l.outbox_id, l.acted_at, l.act_id
