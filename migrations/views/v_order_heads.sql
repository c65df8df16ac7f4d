CREATE OR REPLACE VIEW {cell}.v_order_heads AS
SELECT h.rail_type, h.participant_id, h.head AS outbox_id, h.head_no AS sequence_id, h.ready_at, h.blocked_by,
  h.blocked_since, coalesce((
    SELECT true FROM {cell}.payment_order_marks m
    WHERE m.rail_type = h.rail_type AND m.participant_id = h.participant_id
    LIMIT 1), false) AS marked
FROM {cell}.payment_order_lines h
JOIN {cell}.payment_rails r ON r.rail_type = h.rail_type
JOIN {cell}.payment_rail_profiles p ON p.rail_type = r.rail_type AND p.version = r.profile_version
WHERE h.head IS NOT NULL
  AND coalesce(p.profile -> 'order_participants' ->> h.participant_id, p.profile ->> 'order') = 'STRICT';
COMMENT ON VIEW {cell}.v_order_heads IS
  'The instruction behind which the others of its participant wait on its rail, for each participant that the profile in force orders. ready_at is since when, or when, it may be claimed, blocked_by why it waits for an operator; both are null while it is claimed. marked: something has happened to the line since.';
