-- The pending rows of a page.
SELECT p.outbox_id, coalesce(p.instruction_id, ''), coalesce(p.idempotency_key, ''), p.participant_id,
  coalesce(p.sequence_id, 0), p.rail_type, p.attempt_count, p.outcome_unknown, p.next_attempt_at = 'infinity' AS aside,
  p.payload IS NOT NULL AS has_payload, coalesce(CASE WHEN p.next_attempt_at <> 'infinity' AND p.next_attempt_at > l.due
    THEN to_char(p.next_attempt_at AT TIME ZONE 'UTC', 'FMYYYY-MM-DD') END, '') AS due_too_late
FROM {cell}.v_outbox_pending p
CROSS JOIN (
  -- A caller or an operator sets a due time at most 366 days ahead; a profile may add its own waits.
  SELECT statement_timestamp() + interval '367 days' + coalesce(max(greatest((f.profile ->> 'callback_deadline')::interval,
    (f.profile #>> '{inquiry,not_before}')::interval)), interval '0') AS due
  FROM {cell}.payment_rail_profiles f) l
WHERE p.outbox_id >= $1 AND p.outbox_id <= $2
