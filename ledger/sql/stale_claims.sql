-- Open claims that are due for repair, oldest first: older than the zombie
-- threshold, or with a stale worker, but never younger than the rail's whole
-- send budget. Reads the small table of claims in flight and one probe a member,
-- never the archive; however old a claim is, it is found. Sub-queries with LIMIT
-- can't become joins: NOT EXISTS was planned as a hash join that scans the archive.
--
-- $1 zombie threshold ms, $2 heartbeat stale after ms, $3 rail_type[], $4 send budget ms[], $5 default budget ms, $6 limit
SELECT f.claim_id, a.outbox_id, a.attempt_no, a.next_action, a.instruction_id, a.participant_id, a.sequence_id,
  a.idempotency_key, a.rail_type, a.payload::text, a.headers::text,
  NULL::bytea AS fingerprint, NULL::uuid AS rail_key,
  a.priority, a.enqueued_at, a.claimed_at, a.expires_at, a.first_sent_at, a.last_sent_at,
  a.outcome_unknown, a.provisional, a.send_count, a.inquiry_count, a.render_version,
  NULL::text AS rail_reference, false AS seen_before, -- no answer came that they could weigh
  (extract(epoch FROM clock_timestamp() - f.claimed_at) * 1000)::bigint AS age_ms,
  f.worker_id
FROM {cell}.payment_outbox_claims f
CROSS JOIN LATERAL unnest(f.outbox_ids, f.attempt_nos) AS m(outbox_id, attempt_no)
CROSS JOIN LATERAL (
  SELECT t.* FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = m.outbox_id AND t.attempt_no = m.attempt_no
  LIMIT 1) a
LEFT JOIN unnest($3::text[], $4::bigint[]) AS b(rail_type, budget_ms) ON b.rail_type = a.rail_type
WHERE f.claimed_at <= clock_timestamp() - coalesce(b.budget_ms, $5::bigint) * interval '1 millisecond'
  AND (
    f.claimed_at <= clock_timestamp() - $1::bigint * interval '1 millisecond'
    OR NOT EXISTS (
      SELECT FROM {cell}.outbox_heartbeats h
      WHERE h.name = f.worker_id AND h.status <> 'stopped'
        AND h.last_tick_at > clock_timestamp() - $2::bigint * interval '1 millisecond'))
  AND (
    SELECT true FROM {cell}.payment_outbox_attempts z
    WHERE z.outbox_id = m.outbox_id AND z.attempt_no > m.attempt_no AND z.state <> 'LATE_OUTCOME'
    LIMIT 1) IS NULL
ORDER BY f.claimed_at, a.outbox_id
LIMIT $6
