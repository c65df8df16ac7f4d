-- The money of pending instructions, of instructions in flight and of dead letters, by rail and
-- currency. A quarantined row is counted as pending, and an instruction in flight with an open dead
-- letter, about which a rail is asked again, as in flight. $1 the most instructions to read of each
-- rail and each part; if that many were found, there may be more.
SELECT m.rail_type, m.part, m.currency, count(*) AS instructions,
  sum(CASE WHEN m.amount ~ '^[0-9]{1,30}([.][0-9]{1,10})?$' THEN m.amount::numeric END)::text AS amount,
  bool_or(m.found >= $1) AS at_least
FROM (
  SELECT r.rail_type, CASE WHEN p.outcome_unknown THEN 'waiting, outcome unknown' ELSE 'waiting' END AS part,
    p.amount, p.currency,
    count(*) OVER (PARTITION BY r.rail_type) AS found
  FROM {cell}.payment_rails r
  CROSS JOIN LATERAL (
    SELECT q.outcome_unknown, q.amount, q.currency
    FROM {cell}.v_outbox_pending q
    WHERE q.rail_type = r.rail_type
    LIMIT $1) p
  UNION ALL
  SELECT a.rail_type, 'in flight', a.amount, a.currency, f.found
  FROM (
    SELECT g.outbox_id, g.attempt_no, count(*) OVER () AS found
    FROM (
      SELECT n.outbox_id, n.attempt_no
      FROM {cell}.payment_outbox_claims c
      CROSS JOIN LATERAL unnest(c.outbox_ids, c.attempt_nos) AS n(outbox_id, attempt_no)
      LIMIT $1) g) f
  CROSS JOIN LATERAL (
    SELECT t.rail_type, t.amount, t.currency
    FROM {cell}.v_outbox_attempts t
    WHERE t.outbox_id = f.outbox_id AND t.attempt_no = f.attempt_no
    LIMIT 1) a
  WHERE {is_open f}
  UNION ALL
  SELECT d.rail_type, 'dead letter ' || d.reason, d.amount::text, d.currency, d.found
  FROM (
    SELECT g.outbox_id, g.rail_type, g.reason, g.amount, g.currency, count(*) OVER () AS found
    FROM (
      SELECT l.outbox_id, l.rail_type, l.reason, l.amount, l.currency
      FROM {cell}.payment_dead_letters l
      WHERE l.status NOT IN ({closed_letters})
      LIMIT $1) g) d
  WHERE (SELECT true FROM {cell}.payment_outbox_pending p WHERE p.outbox_id = d.outbox_id LIMIT 1) IS NULL
    AND coalesce((
      SELECT t.state
      FROM {cell}.payment_outbox_attempts t
      WHERE t.outbox_id = d.outbox_id AND t.state <> 'LATE_OUTCOME'
      ORDER BY t.attempt_no DESC
      LIMIT 1) NOT IN ({claim_states}), true)) m
GROUP BY m.rail_type, m.part, m.currency
ORDER BY m.rail_type, m.part, m.currency
LIMIT 1000
