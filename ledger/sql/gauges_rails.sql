-- Pending instructions by rail, for gauges that are read every few seconds: an index-only count of
-- at most $1, and one probe for each priority for the longest due row. Unknown outcomes have an
-- index of their own. oldest_free_ms is the age of the longest due row that no pause of its participant and no line
-- of strict order holds: the first one of the $1 longest due rows of a priority, or the last one of them if all are held, which is
-- as old as what may be claimed can be. Also the number of running relayers that serve each rail under the profile in
-- force, and of the lines of strict order that wait for an operator, with the age of the oldest: not those
-- to which something has happened since they were advanced last. $2 limit of rails
WITH lanes AS MATERIALIZED (
  SELECT v.rail_type, v.worker_id, v.profile_version FROM {cell}.v_lanes v
),
-- What a line holds: it is blocked, or its head is claimed or waits for its own time. The rows are compared with it by
-- a hash (NOT IN of a statement that names no other one), because there may be as many of both.
held AS MATERIALIZED (
  SELECT h.rail_type, h.participant_id
  FROM {cell}.v_order_heads h
  WHERE (h.blocked_by IS NOT NULL OR h.ready_at IS NULL OR h.ready_at > statement_timestamp()) AND NOT h.marked
)
SELECT r.rail_type, r.paused, r.paused AND r.auto_paused AS auto_paused, d.depth, u.unknown,
  CASE WHEN o.next_attempt_at <= statement_timestamp()
    THEN (extract(epoch FROM statement_timestamp() - o.next_attempt_at) * 1000)::bigint ELSE 0 END AS oldest_due_ms,
  CASE WHEN c.next_attempt_at <= statement_timestamp()
    THEN (extract(epoch FROM statement_timestamp() - c.next_attempt_at) * 1000)::bigint ELSE 0 END AS oldest_free_ms,
  (SELECT count(DISTINCT v.worker_id) FROM lanes v WHERE v.rail_type = r.rail_type
    AND v.profile_version = r.profile_version) AS relayers,
  b.heads AS blocked, greatest(extract(epoch FROM statement_timestamp() - b.since) * 1000, 0)::bigint AS blocked_ms
FROM {cell}.payment_rails r
CROSS JOIN LATERAL (
  SELECT count(*) AS depth
  FROM (SELECT FROM {cell}.payment_outbox_pending p WHERE p.rail_type = r.rail_type LIMIT $1) w) d
CROSS JOIN LATERAL (
  SELECT count(*) AS unknown
  FROM (SELECT FROM {cell}.payment_outbox_pending p WHERE p.rail_type = r.rail_type AND p.outcome_unknown LIMIT $1) w) u
CROSS JOIN LATERAL (
  SELECT min(first.next_attempt_at) AS next_attempt_at
  FROM (VALUES (0::smallint), (1), (2)) AS v(priority)
  CROSS JOIN LATERAL (
    SELECT p.next_attempt_at
    FROM {cell}.payment_outbox_pending p
    WHERE p.rail_type = r.rail_type AND p.priority = v.priority
    ORDER BY p.next_attempt_at
    LIMIT 1) first) o
CROSS JOIN LATERAL (
  SELECT count(*) AS heads, min(w.blocked_since) AS since
  FROM (
    SELECT h.blocked_since
    FROM {cell}.v_order_heads h
    WHERE h.rail_type = r.rail_type AND h.blocked_by IS NOT NULL AND NOT h.marked
    ORDER BY h.blocked_since
    LIMIT $1) w) b
CROSS JOIN LATERAL (
  SELECT min(first.next_attempt_at) AS next_attempt_at
  FROM (VALUES (0::smallint), (1), (2)) AS v(priority)
  CROSS JOIN LATERAL (
    SELECT w.next_attempt_at
    FROM (
      SELECT p.next_attempt_at, p.participant_id, row_number() OVER (ORDER BY p.next_attempt_at) AS place
      FROM {cell}.payment_outbox_pending p
      WHERE p.rail_type = r.rail_type AND p.priority = v.priority AND p.next_attempt_at <= statement_timestamp()
      ORDER BY p.next_attempt_at
      LIMIT $1) w
    WHERE w.place = $1 OR (r.rail_type, w.participant_id) NOT IN (SELECT l.rail_type, l.participant_id FROM held l)
      AND w.participant_id NOT IN (SELECT g.participant_id FROM {cell}.payment_paused_participants g)
    ORDER BY w.next_attempt_at
    LIMIT 1) first) c
ORDER BY r.rail_type
LIMIT $2
