CREATE OR REPLACE VIEW {cell}.v_queue_health AS
WITH backlog AS MATERIALIZED (
  SELECT b.rail_type, bool_or(b.at_least) AS at_least,
    sum(CASE WHEN b.state NOT IN ({claim_states}) THEN b.count ELSE 0 END)::bigint AS pending,
    sum(CASE WHEN b.state IN ({claim_states}) THEN b.count ELSE 0 END)::bigint AS in_flight,
    sum(CASE WHEN b.state IN ({unsettled_states}) THEN b.count ELSE 0 END)::bigint AS unsettled
  FROM {cell}.v_outbox_backlog b
  GROUP BY b.rail_type
),
letters AS MATERIALIZED (
  SELECT s.rail_type, sum(s.count)::bigint AS open
  FROM {cell}.v_dead_letter_summary s
  GROUP BY s.rail_type
),
rail AS MATERIALIZED (
  SELECT r.rail_type, r.paused OR e.paused AS paused, coalesce(b.pending, 0) AS pending,
    coalesce(b.at_least, false) AS at_least,
    CASE WHEN d.due_at <= clock_timestamp() THEN clock_timestamp() - d.due_at END AS oldest_due_age,
    coalesce(b.in_flight, 0) AS in_flight,
    coalesce(b.unsettled, 0)
      + (SELECT count(*)
        FROM (
          SELECT d.outbox_id FROM {cell}.payment_dead_letters d
          WHERE d.rail_type = r.rail_type AND d.reason = 'OUTCOME_UNKNOWN' AND d.status NOT IN ({closed_letters})
          LIMIT 100000) u
        -- An instruction that is pending for an inquiry is counted in the backlog.
        WHERE (SELECT true FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = u.outbox_id
          LIMIT 1) IS NULL) AS outcome_unknown,
    coalesce(l.open, 0) AS dead_letters
  FROM {cell}.payment_rails r
  CROSS JOIN (SELECT g.paused FROM {cell}.payment_rails g WHERE g.rail_type = '*') e
  CROSS JOIN LATERAL (
    SELECT min(f.next_attempt_at) AS due_at
    FROM (VALUES (0::smallint), (1), (2)) AS v(priority)
    CROSS JOIN LATERAL (
      SELECT p.next_attempt_at
      FROM {cell}.payment_outbox_pending p
      WHERE p.rail_type = r.rail_type AND p.priority = v.priority
      ORDER BY p.next_attempt_at
      LIMIT 1) f) d
  LEFT JOIN backlog b ON b.rail_type = r.rail_type
  LEFT JOIN letters l ON l.rail_type = r.rail_type
  WHERE r.rail_type <> '*'
),
component AS MATERIALIZED (
  SELECT CASE WHEN h.kind IN ('relayer', 'reaper') THEN h.name ELSE substr(h.name, length(h.kind) + 2) END AS name,
    h.kind, h.host, h.version, h.started_at, h.last_tick_at, h.clock_offset_ms,
    concat_ws(', ', h.status, nullif(h.activity, '')) AS activity,
    clock_timestamp() - h.last_tick_at AS age,
    CASE
      WHEN h.status = 'stopped' THEN 'stopped'
      WHEN h.last_tick_at <= clock_timestamp() - least(h.stale_after_ms, 86400000) * interval '1 millisecond' THEN 'stale'
      WHEN h.last_tick_at <= clock_timestamp() - least(h.stale_after_ms, 86400000) * interval '1 millisecond' / 2 THEN 'warning'
      ELSE 'fresh'
    END AS status
  FROM {cell}.outbox_heartbeats h
  WHERE h.last_tick_at > clock_timestamp() - CASE h.status WHEN 'stopped' THEN interval '1 hour'
    ELSE interval '1 day' END
)
SELECT 'cell' AS scope, '*' AS name,
  CASE WHEN bool_or(r.paused) THEN 'paused' WHEN count(*) = 0 THEN 'no rails' ELSE 'running' END AS status,
  sum(r.pending)::bigint AS pending, bool_or(r.at_least) AS at_least, max(r.oldest_due_age) AS oldest_due_age,
  sum(r.in_flight)::bigint AS in_flight, (SELECT clock_timestamp() - min(c.claimed_at)
    FROM {cell}.payment_outbox_claims c) AS oldest_claim_age,
  sum(r.outcome_unknown)::bigint AS outcome_unknown,
  (SELECT coalesce(sum(l.open), 0) FROM letters l)::bigint AS dead_letters,
  NULL::text AS kind, NULL::text AS host, NULL::text AS version, NULL::timestamptz AS started_at,
  NULL::timestamptz AS last_beat_at, NULL::interval AS beat_age, NULL::bigint AS clock_offset_ms, NULL::text AS activity
FROM rail r
UNION ALL
SELECT 'rail', r.rail_type, CASE WHEN r.paused THEN 'paused' ELSE 'running' END,
  r.pending, r.at_least, r.oldest_due_age, r.in_flight, NULL, r.outcome_unknown, r.dead_letters,
  NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM rail r
UNION ALL
SELECT 'component', c.name, c.status, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  c.kind, c.host, c.version, c.started_at, c.last_tick_at, c.age, c.clock_offset_ms, c.activity
FROM component c;
COMMENT ON VIEW {cell}.v_queue_health IS
  'The overview for an operator on call: one row for the cell, one for each rail, and one for each component with '
  'a heartbeat in the last day (in the last hour, if it stopped in order). A component is stale after its own '
  'stale_after_ms, and has the status warning after half of it.';
