-- What is in flight, by rail, from the small table of claims and two probes a
-- member. The sub-queries with LIMIT can't become joins, so that no plan scans the
-- archive. $1 members that are looked at, the oldest first
SELECT a.rail_type, count(*) AS in_flight, count(*) FILTER (WHERE a.outcome_unknown) AS unknown,
  (extract(epoch FROM max(clock_timestamp() - f.claimed_at)) * 1000)::bigint AS oldest_ms
FROM (
  SELECT c.claimed_at, m.outbox_id, m.attempt_no
  FROM {cell}.payment_outbox_claims c
  CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
  ORDER BY c.claimed_at
  LIMIT $1) f
CROSS JOIN LATERAL (
  SELECT t.rail_type, t.outcome_unknown
  FROM {cell}.payment_outbox_attempts t
  WHERE t.outbox_id = f.outbox_id AND t.attempt_no = f.attempt_no
  LIMIT 1) a
WHERE {is_open f}
GROUP BY a.rail_type
