-- Every instruction of a page, and every row of pending and the archive with its participant, rail
-- and payload or a copy of its own, together with the fingerprint in the registry and the one that
-- the function of the schema computes: $1 <= outbox_id <= $2.
SELECT x.source, x.outbox_id, x.attempt_no, x.participant_id, x.rail_type, x.payload::text AS payload,
  {cell}.payment_outbox_fingerprint(x.participant_id, x.rail_type, x.payload) AS recomputed,
  (SELECT k.fingerprint FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = x.outbox_id) AS fingerprint
FROM (
  SELECT 'pending' AS source, p.outbox_id, 0 AS attempt_no, p.participant_id, p.rail_type, p.payload
  FROM {cell}.v_outbox_pending p
  WHERE p.outbox_id >= $1 AND p.outbox_id <= $2 AND p.payload IS NOT NULL
  UNION ALL
  SELECT 'the instruction', i.outbox_id, 0, coalesce(r.participant_id, ''), i.rail_type, i.payload
  FROM {cell}.payment_outbox_instructions i
  LEFT JOIN LATERAL (SELECT k.participant_id FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = i.outbox_id
    LIMIT 1) r ON true
  WHERE i.outbox_id >= $1 AND i.outbox_id <= $2
  UNION ALL
  SELECT a.state::text, a.outbox_id, a.attempt_no, coalesce(a.participant_id, ''), a.rail_type, a.payload
  FROM {cell}.v_outbox_attempts a
  WHERE a.outbox_id >= $1 AND a.outbox_id <= $2 AND a.payload IS NOT NULL) x
