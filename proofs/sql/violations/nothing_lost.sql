WITH {horizon},
flights AS (
  SELECT DISTINCT m.outbox_id, m.attempt_no
  FROM {cell}.payment_outbox_claims f
  CROSS JOIN LATERAL unnest(f.outbox_ids, f.attempt_nos) m (outbox_id, attempt_no)
),
rows AS (
  SELECT a.outbox_id, count(*) AS n, bool_or(a.payload IS NOT NULL) AS payload,
    max(a.created_at) FILTER (WHERE a.state = 'FAILED' AND a.error_code IS DISTINCT FROM 'RESOLVED') AS failed_at
  FROM {cell}.v_outbox_attempts a
  GROUP BY a.outbox_id
),
-- The last row of each; LATE_OUTCOME changes nothing by itself.
lasts AS (
  SELECT DISTINCT ON (a.outbox_id) a.outbox_id, a.attempt_no, a.state::text AS state,
    extract(epoch FROM statement_timestamp() - a.claimed_at) AS seconds
  FROM {cell}.payment_outbox_attempts a
  WHERE a.state <> 'LATE_OUTCOME'
  ORDER BY a.outbox_id, a.attempt_no DESC
),
acts AS (
  SELECT l.outbox_id, max(l.acted_at) FILTER (WHERE l.act = 'RESOLVE' OR l.act = 'TRIAGE' AND l.subject = 'resolved') AS closed_at
  FROM {cell}.payment_operator_log l
  WHERE l.outbox_id IS NOT NULL
  GROUP BY l.outbox_id
),
conflicts AS (
  SELECT c.outbox_id, c.attempt_no
  FROM {cell}.payment_outbox_contradictions c
  LEFT JOIN acts o ON o.outbox_id = c.outbox_id
  WHERE (o.closed_at >= c.opened_at - interval '1 minute') IS NOT TRUE
),
instructions AS (
  SELECT k.outbox_id FROM {cell}.payment_outbox_keys k
  UNION
  SELECT p.outbox_id FROM {cell}.payment_outbox_pending p
  UNION
  SELECT r.outbox_id FROM rows r
  UNION
  SELECT d.outbox_id FROM {cell}.payment_dead_letters d
  UNION
  SELECT f.outbox_id FROM flights f
  UNION
  SELECT o.outbox_id FROM acts o
  UNION
  SELECT c.outbox_id FROM conflicts c
),
latest AS (
  -- A caller or an operator sets a due time at most 366 days ahead; a profile may add its own waits.
  SELECT statement_timestamp() + interval '367 days' + coalesce(max(greatest((f.profile ->> 'callback_deadline')::interval,
    (f.profile #>> '{inquiry,not_before}')::interval)), interval '0') AS due
  FROM {cell}.payment_rail_profiles f
),
known AS (
  SELECT i.outbox_id, k.outbox_id IS NOT NULL AS registered, k.instruction_id, k.participant_id, k.sequence_id,
    p.outbox_id IS NOT NULL AS waits, p.payload IS NOT NULL AS orders, p.next_attempt_at = 'infinity' AS aside,
    l.state, l.attempt_no, l.seconds, coalesce(r.n, 0) AS rows, coalesce(r.payload, false) AS payload,
    d.outbox_id IS NOT NULL AS letter, coalesce(d.status NOT IN ('manual_replay', 'resolved'), false) AS open_letter,
    -- The act is younger than the letter and the failure. The clocks of two servers may differ by a minute.
    coalesce(o.closed_at >= greatest(d.opened_at, r.failed_at) - interval '1 minute', false) AS closed_by_act,
    -- An id has the time of the enqueue; one of a time long before that was changed.
    coalesce(i.outbox_id < h.id AND to_timestamp(('x' || substr(replace(i.outbox_id::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0)
      >= k.created_at - interval '1 day', false) AS retired,
    f.outbox_id IS NOT NULL AS flying,
    CASE WHEN p.next_attempt_at <> 'infinity' AND p.next_attempt_at > t.due
      THEN to_char(p.next_attempt_at AT TIME ZONE 'UTC', 'FMYYYY-MM-DD') END AS too_late
  FROM instructions i
  CROSS JOIN horizon h
  CROSS JOIN latest t
  LEFT JOIN {cell}.payment_outbox_keys k ON k.outbox_id = i.outbox_id
  LEFT JOIN {cell}.v_outbox_pending p ON p.outbox_id = i.outbox_id
  LEFT JOIN lasts l ON l.outbox_id = i.outbox_id
  LEFT JOIN rows r ON r.outbox_id = i.outbox_id
  LEFT JOIN {cell}.payment_dead_letters d ON d.outbox_id = i.outbox_id
  LEFT JOIN acts o ON o.outbox_id = i.outbox_id
  LEFT JOIN flights f ON f.outbox_id = i.outbox_id AND f.attempt_no = l.attempt_no
)
SELECT format('%s: none of its %s rows has its payload', k.outbox_id, k.rows) AS violation
FROM known k
WHERE NOT k.waits AND k.rows > 0 AND NOT k.payload
UNION ALL
SELECT format('%s is in pending and no row has its payload', k.outbox_id)
FROM known k
WHERE k.waits AND NOT k.orders
UNION ALL
SELECT format('%s is in pending and due on %s, later than a caller, a profile or an operator may set it', k.outbox_id, k.too_late)
FROM known k
WHERE k.too_late IS NOT NULL
UNION ALL
SELECT format('%s: row %s contradicts what was said before, there is no open dead letter, and the log has no act of an operator that settled it',
  c.outbox_id, c.attempt_no)
FROM conflicts c
JOIN known k ON k.outbox_id = c.outbox_id
WHERE NOT k.open_letter
UNION ALL
SELECT v.violation
FROM known k
CROSS JOIN LATERAL (
  SELECT CASE
    WHEN k.waits THEN
      CASE WHEN k.aside AND NOT k.open_letter THEN format('%s is quarantined in pending and has no open dead letter', k.outbox_id) END
    WHEN k.state IS NULL AND NOT k.registered THEN
      format('%s has a dead letter, a claim or an act, and neither a registry row nor an attempt', k.outbox_id)
    WHEN k.state IS NULL AND k.retired THEN NULL
    WHEN k.state IS NULL THEN
      format('%s (instruction %s, number %s of %s) is in the registry and nowhere else',
        k.outbox_id, k.instruction_id, k.sequence_id, k.participant_id)
    WHEN k.state IN ({claim_states}) AND NOT k.flying THEN
      format('%s: claim %s is open, and no claim in flight leads the reaper to it', k.outbox_id, k.attempt_no)
    WHEN k.state IN ({claim_states}) AND k.seconds < -60 THEN
      format('%s: claim %s is dated ahead of the database''s clock, and no reaper repairs it before that time', k.outbox_id, k.attempt_no)
    WHEN k.state IN ({claim_states}) THEN
      CASE WHEN k.seconds > {in_flight_seconds}
        THEN format('%s: claim %s is open for %s s; the reaper should have repaired it', k.outbox_id, k.attempt_no, floor(k.seconds)) END
    WHEN k.state IN ({terminal_states}) THEN NULL
    WHEN k.state = 'FAILED' AND NOT k.letter THEN
      format('%s FAILED and has no dead letter', k.outbox_id)
    WHEN k.state = 'FAILED' THEN
      CASE WHEN NOT k.open_letter AND NOT k.closed_by_act
        THEN format('%s FAILED, its dead letter is closed, and the log has no act of an operator that closed it', k.outbox_id) END
    WHEN k.state = 'PARKED' THEN
      CASE WHEN NOT k.open_letter THEN format('%s is PARKED and has no open dead letter', k.outbox_id) END
    -- UNKNOWN with a letter and without PARKED: an operator has it.
    WHEN k.open_letter THEN NULL
    ELSE format('%s is %s, and is neither in pending nor in the dead letters', k.outbox_id, k.state)
  END AS violation) v
WHERE v.violation IS NOT NULL
