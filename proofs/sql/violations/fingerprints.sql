-- The fingerprint is computed here, by functions of the server only, and by the
-- cell's own function, which could have been replaced by one that agrees.
WITH carried AS (
  SELECT p.outbox_id, 'pending' AS holder, p.participant_id, p.rail_type, p.payload
  FROM {cell}.v_outbox_pending p
  WHERE p.payload IS NOT NULL
  UNION ALL
  SELECT i.outbox_id, 'the instruction', r.participant_id, i.rail_type, i.payload
  FROM {cell}.payment_outbox_instructions i
  LEFT JOIN {cell}.payment_outbox_keys r ON r.outbox_id = i.outbox_id
  UNION ALL
  SELECT a.outbox_id, format('row %s (%s)', a.attempt_no, a.state), a.participant_id, a.rail_type, a.payload
  FROM {cell}.v_outbox_attempts a
  WHERE a.payload IS NOT NULL
),
computed AS (
  SELECT c.outbox_id, c.holder, k.fingerprint,
    sha256(convert_to(c.participant_id || chr(31) || c.rail_type || chr(31) || c.payload::text, 'UTF8')) AS here,
    {cell}.payment_outbox_fingerprint(c.participant_id, c.rail_type, c.payload) AS by_cell
  FROM carried c
  LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = c.outbox_id
)
SELECT CASE
  WHEN c.fingerprint IS NULL THEN
    format('%s: %s has a payload without a fingerprint in the registry', c.outbox_id, c.holder)
  WHEN c.here <> c.fingerprint THEN
    format('%s: %s is not what was enqueued: its fingerprint is %s, the registry''s %s', c.outbox_id, c.holder,
      encode(substr(c.here, 1, 8), 'hex'), encode(substr(c.fingerprint, 1, 8), 'hex'))
  ELSE
    format('%s: %s: the database''s own function returns %s, and the registry has %s', c.outbox_id, c.holder,
      encode(substr(c.by_cell, 1, 8), 'hex'), encode(substr(c.fingerprint, 1, 8), 'hex'))
  END AS violation
FROM computed c
WHERE c.fingerprint IS NULL OR c.here <> c.fingerprint OR c.by_cell IS DISTINCT FROM c.fingerprint
