WITH carried AS (
  SELECT a.outbox_id, a.attempt_no AS place, format('row %s of the archive', a.attempt_no) AS holder,
    a.instruction_id, a.idempotency_key, a.participant_id, a.sequence_id, a.rail_type
  FROM {cell}.v_outbox_attempts a
  UNION ALL
  SELECT p.outbox_id, 2147483647, 'pending', p.instruction_id, p.idempotency_key, p.participant_id, p.sequence_id, p.rail_type
  FROM {cell}.v_outbox_pending p
),
compared AS (
  SELECT c.*, first_value(c.rail_type) OVER (PARTITION BY c.outbox_id ORDER BY c.place) AS first_rail
  FROM carried c
)
SELECT CASE WHEN k.outbox_id IS NULL
    THEN format('%s: %s has it and the registry does not', c.outbox_id, c.holder)
    ELSE format('%s: %s has instruction %s, key %s, number %s of %s; the registry has instruction %s, key %s, number %s of %s',
      c.outbox_id, c.holder, c.instruction_id, c.idempotency_key, c.sequence_id, c.participant_id,
      k.instruction_id, k.idempotency_key, k.sequence_id, k.participant_id) END AS violation
FROM carried c
LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = c.outbox_id
WHERE k.outbox_id IS NULL
  OR (c.instruction_id, c.idempotency_key, c.participant_id, c.sequence_id)
    IS DISTINCT FROM (k.instruction_id, k.idempotency_key, k.participant_id, k.sequence_id)
UNION ALL
SELECT format('%s: %s has rail %s, earlier rows have %s', c.outbox_id, c.holder, c.rail_type, c.first_rail)
FROM compared c
WHERE c.rail_type <> c.first_rail
