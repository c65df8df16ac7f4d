-- The claim rows of one claim statement that are still open. A worker executes this after a commit
-- of unknown result. If it returns no rows, the claim did not commit; if it still commits, the
-- reaper recovers it. $1 claim_id
SELECT f.claim_id, a.outbox_id, a.attempt_no, a.next_action, coalesce(a.instruction_id, ''), a.participant_id,
  coalesce(a.sequence_id, 0), coalesce(a.idempotency_key, ''), a.rail_type, coalesce(a.payload::text, ''),
    coalesce(a.headers, '{}')::text,
  k.fingerprint, k.rail_key,
  a.priority, a.enqueued_at, a.claimed_at, a.expires_at, a.first_sent_at, a.last_sent_at,
  a.outcome_unknown, a.provisional, a.send_count, a.inquiry_count, a.render_version,
  CASE a.next_action WHEN 'INQUIRE' THEN {cell}.last_rail_reference(a.outbox_id) END AS rail_reference,
  CASE a.next_action WHEN 'INQUIRE' THEN {cell}.rail_has_seen(a.outbox_id) ELSE false END AS seen_before,
  CASE a.next_action WHEN 'INQUIRE' THEN {cell}.operator_asked(a.outbox_id, a.attempt_no) ELSE false END AS asked,
  CASE WHEN a.next_action = 'SEND' AND a.outcome_unknown THEN {cell}.just_replayed(a.outbox_id)
    ELSE false END AS replayed,
  CASE WHEN a.attempt_no > 1 THEN {cell}.rail_busy_since(a.outbox_id) END AS busy_since,
  CASE WHEN a.attempt_no > 1 THEN {cell}.rail_refusals(a.outbox_id, a.next_action) END AS rail_refusals,
  CASE WHEN a.first_sent_at IS NOT NULL OR a.outcome_unknown OR a.enqueued_at < (SELECT {cell}.forgotten_calls_until())
    THEN {cell}.rules_of_sends(a.outbox_id)::text END AS sent_under,
  coalesce(i.send_once, false) AS send_once
FROM {cell}.payment_outbox_claims f
CROSS JOIN LATERAL unnest(f.outbox_ids, f.attempt_nos) AS m(outbox_id, attempt_no)
CROSS JOIN LATERAL (
  SELECT t.* FROM {cell}.v_outbox_attempts t
  WHERE t.outbox_id = m.outbox_id AND t.attempt_no = m.attempt_no
  LIMIT 1) a
LEFT JOIN LATERAL (
  SELECT r.fingerprint, r.rail_key FROM {cell}.payment_outbox_keys r WHERE r.outbox_id = a.outbox_id LIMIT 1) k ON true
LEFT JOIN LATERAL (
  SELECT o.send_once FROM {cell}.payment_outbox_instructions o WHERE o.outbox_id = a.outbox_id LIMIT 1) i ON true
WHERE f.claim_id = $1
  AND {is_open m}
ORDER BY a.outbox_id
