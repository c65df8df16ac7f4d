-- Expired leases: open claims that are due for recovery, oldest first. A claim is due if it is
-- older than the claim timeout or its worker is stale, but never while a call that began in time
-- could still be in progress, by the profile in force or by the one under which the claim was made,
-- since a call continues as it began. On a rail that the reaper does not know, only the claim
-- timeout applies. Each of the other spans is the longer one of the cell's and of that which the
-- claim's own worker reports: a worker that has not adopted a shorter budget keeps its claims under
-- the old one. The statement reads the small table of claims in flight and one row of the archive
-- for each member, by a probe; a claim of any age is found. Sub-queries with LIMIT can't become
-- joins: NOT EXISTS was planned as a hash join that scans the archive.
--
-- $1 claim timeout ms, $2 heartbeat stale after ms, $3 rail_type[], $4 longest call ms[], $5 start within ms, $6 limit
SELECT f.claim_id, a.outbox_id, a.attempt_no, a.next_action, coalesce(a.instruction_id, ''), a.participant_id,
  -- no send follows
  coalesce(a.sequence_id, 0), coalesce(a.idempotency_key, ''), a.rail_type, '' AS payload,
    coalesce(a.headers, '{}')::text,
  NULL::bytea AS fingerprint, NULL::uuid AS rail_key,
  a.priority, a.enqueued_at, a.claimed_at, a.expires_at, a.first_sent_at, a.last_sent_at,
  a.outcome_unknown, a.provisional, a.send_count, a.inquiry_count, a.render_version,
  NULL::text AS rail_reference, false AS seen_before,
  CASE a.next_action WHEN 'INQUIRE' THEN {cell}.operator_asked(a.outbox_id, a.attempt_no) ELSE false END AS asked,
  false AS replayed, -- no send follows
  NULL::timestamptz AS busy_since, NULL::timestamptz[] AS rail_refusals, -- there is no answer to which they apply
  NULL AS sent_under, -- the next claim reads it
  coalesce(i.send_once, false) AS send_once,
  (extract(epoch FROM clock_timestamp() - f.claimed_at) * 1000)::bigint AS age_ms,
  f.worker_id, a.profile_version
FROM {cell}.payment_outbox_claims f
CROSS JOIN LATERAL unnest(f.outbox_ids, f.attempt_nos) AS m(outbox_id, attempt_no)
CROSS JOIN LATERAL (
  SELECT t.* FROM {cell}.v_outbox_attempts t
  WHERE t.outbox_id = m.outbox_id AND t.attempt_no = m.attempt_no
  LIMIT 1) a
LEFT JOIN unnest($3::text[], $4::bigint[]) AS b(rail_type, call_ms) ON b.rail_type = a.rail_type
LEFT JOIN LATERAL (
  SELECT {cell}.call_budget_ms(p.profile) * interval '1 millisecond' AS call
  FROM {cell}.payment_rail_profiles p
  WHERE p.rail_type = a.rail_type AND p.version = a.profile_version
  LIMIT 1) own ON true
LEFT JOIN LATERAL (
  SELECT o.send_once FROM {cell}.payment_outbox_instructions o WHERE o.outbox_id = a.outbox_id LIMIT 1) i ON true
LEFT JOIN {cell}.outbox_heartbeats h ON h.name = f.worker_id
CROSS JOIN LATERAL (
  SELECT greatest($1::bigint, h.claim_timeout_ms) * interval '1 millisecond' AS claim_timeout,
    greatest($2::bigint, least(h.stale_after_ms, 86400000)) * interval '1 millisecond' AS stale,
    greatest($5::bigint, h.start_within_ms) * interval '1 millisecond' AS start_within) w
WHERE f.claimed_at <= clock_timestamp() - coalesce(b.call_ms * interval '1 millisecond' + w.start_within,
  w.claim_timeout)
  AND (
    f.claimed_at <= clock_timestamp() - w.claim_timeout
    OR (h.status <> 'stopped' AND h.last_tick_at > clock_timestamp() - w.stale) IS NOT TRUE)
  AND (b.call_ms IS NULL OR own.call IS NULL OR f.claimed_at <= clock_timestamp() - own.call - w.start_within)
  AND {is_open m}
ORDER BY f.claimed_at, a.outbox_id
LIMIT $6
