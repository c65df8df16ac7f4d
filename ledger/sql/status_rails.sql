-- Pending instructions by rail. Each count is at most $1, so that a large backlog does not make the
-- statement slow; the oldest due time takes one probe for each priority. $2 limit of rails
SELECT r.rail_type, r.profile_version, r.paused, r.paused_by, r.paused_at, r.pause_reason, r.paused_until,
  d.depth, d.due, d.unknown,
  CASE WHEN o.next_attempt_at <= statement_timestamp()
    THEN (extract(epoch FROM statement_timestamp() - o.next_attempt_at) * 1000)::bigint END AS oldest_due_ms
FROM {cell}.payment_rails r
CROSS JOIN LATERAL (
  SELECT count(*) AS depth,
    count(*) FILTER (WHERE w.next_attempt_at <= statement_timestamp()) AS due,
    count(*) FILTER (WHERE w.outcome_unknown) AS unknown
  FROM (
    SELECT p.next_attempt_at, p.outcome_unknown
    FROM {cell}.payment_outbox_pending p
    WHERE p.rail_type = r.rail_type
    LIMIT $1) w) d
CROSS JOIN LATERAL (
  SELECT min(first.next_attempt_at) AS next_attempt_at
  FROM (VALUES (0::smallint), (1), (2)) AS v(priority)
  CROSS JOIN LATERAL (
    SELECT p.next_attempt_at
    FROM {cell}.payment_outbox_pending p
    WHERE p.rail_type = r.rail_type AND p.priority = v.priority
    ORDER BY p.next_attempt_at
    LIMIT 1) first) o
ORDER BY r.rail_type
LIMIT $2
