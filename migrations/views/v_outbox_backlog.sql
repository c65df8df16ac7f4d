CREATE OR REPLACE VIEW {cell}.v_outbox_backlog AS
SELECT w.rail_type, w.state, count(*) AS count, max(w.waiting) >= 100000 AS at_least,
  min(w.enqueued_at) AS oldest_enqueued_at, clock_timestamp() - min(w.enqueued_at) AS oldest_age,
    min(w.due_at) AS next_due_at
FROM (
  SELECT r.rail_type, p.created_at AS enqueued_at, nullif(p.next_attempt_at, 'infinity') AS due_at,
    count(*) OVER (PARTITION BY r.rail_type) AS waiting,
    CASE
      WHEN p.next_attempt_at = 'infinity' THEN 'UNCLAIMABLE'
      WHEN p.provisional THEN 'ACCEPTED'
      WHEN p.outcome_unknown THEN 'UNKNOWN'
      WHEN p.attempt_count > 0 THEN 'RETRYABLE'
      ELSE 'PENDING'
    END AS state
  FROM {cell}.payment_rails r
  CROSS JOIN LATERAL (
    SELECT q.created_at, q.next_attempt_at, q.provisional, q.outcome_unknown, q.attempt_count
    FROM {cell}.payment_outbox_pending q
    WHERE q.rail_type = r.rail_type
    LIMIT 100000) p
  UNION ALL
  SELECT a.rail_type, a.enqueued_at, NULL, 1, a.state::text
  FROM (
    SELECT m.outbox_id, m.attempt_no
    FROM {cell}.payment_outbox_claims c
    CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS m(outbox_id, attempt_no)
    ORDER BY c.claimed_at
    LIMIT 20000) f
  CROSS JOIN LATERAL (
    SELECT t.rail_type, t.enqueued_at, t.state
    FROM {cell}.payment_outbox_attempts t
    WHERE t.outbox_id = f.outbox_id AND t.attempt_no = f.attempt_no
    LIMIT 1) a
  WHERE {is_open f}) w
GROUP BY w.rail_type, w.state;
COMMENT ON VIEW {cell}.v_outbox_backlog IS
  'Instructions that are pending or in flight, by rail and state. PENDING: never sent. RETRYABLE: sent, and '
  'provably not executed. UNKNOWN and ACCEPTED: the rail''s final answer is outstanding. UNCLAIMABLE: quarantined. '
  'DISPATCHING and INQUIRING: claimed and not answered. The view reads at most 100,000 pending rows of each rail '
  '(at_least is then true) and 20,000 claimed ones.';
