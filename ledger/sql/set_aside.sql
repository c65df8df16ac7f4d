-- Sets a pending row aside that can't be claimed alone while others of its lane
-- can: it stays where it is, is never due again by itself, and waits for a
-- person. $1 outbox_id, $2 error_code
WITH aside AS (
  UPDATE {cell}.payment_outbox_pending p
  SET next_attempt_at = 'infinity'
  WHERE p.outbox_id = $1
  RETURNING p.outbox_id, p.instruction_id, p.participant_id, p.rail_type
)
INSERT INTO {cell}.payment_dead_letters AS d
  (outbox_id, instruction_id, participant_id, rail_type, reason, error_code)
SELECT s.outbox_id, s.instruction_id, s.participant_id, s.rail_type, 'UNCLAIMABLE', $2
FROM aside s
ON CONFLICT (outbox_id) DO UPDATE SET
  reason = CASE WHEN d.reason = 'CONFLICT' AND d.status NOT IN ('manual_replay', 'resolved') THEN d.reason ELSE excluded.reason END,
  error_code = excluded.error_code,
  status = 'pending',
  opened_at = CASE WHEN d.status IN ('manual_replay', 'resolved') THEN excluded.opened_at ELSE d.opened_at END,
  updated_at = excluded.updated_at
