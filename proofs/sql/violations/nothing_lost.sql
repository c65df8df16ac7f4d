WITH {horizon},
flights AS (
  SELECT DISTINCT m.outbox_id, m.attempt_no
  FROM {cell}.payment_outbox_claims f
  CROSS JOIN LATERAL unnest(f.outbox_ids, f.attempt_nos) m (outbox_id, attempt_no)
),
rows AS (
  SELECT a.outbox_id, count(*) AS n, bool_or(a.payload IS NOT NULL) AS payload,
    max(a.created_at) FILTER (WHERE a.state = 'FAILED' AND a.error_code IS DISTINCT FROM 'RESOLVED') AS failed_at,
    max(a.created_at) FILTER (WHERE a.state = 'FAILED') AS unpaid_at, (array_agg(a.rail_type ORDER BY a.attempt_no))[1] AS rail
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
  SELECT l.outbox_id, max(l.acted_at) FILTER (WHERE l.act = 'RESOLVE' OR l.act = 'TRIAGE' AND l.subject = 'resolved') AS closed_at,
    max(l.acted_at) FILTER (WHERE l.act = 'TRIAGE' AND l.subject = 'resolved'
      AND coalesce(l.detail ->> 'letter', 'FAILED') IN ({unpaid_reasons})) AS triaged_at,
    max(l.acted_at) FILTER (WHERE l.act = 'RESOLVE') AS proved_at
  FROM {cell}.payment_operator_log l
  WHERE l.outbox_id IS NOT NULL
  GROUP BY l.outbox_id
),
conflicts AS (
  SELECT c.outbox_id, c.attempt_no, coalesce(o.closed_at >= c.opened_at - interval '1 minute', false) AS settled,
    a.outbox_id IS NOT NULL AS there
  FROM {cell}.payment_outbox_contradictions c
  LEFT JOIN acts o ON o.outbox_id = c.outbox_id
  LEFT JOIN {cell}.payment_outbox_attempts a ON a.outbox_id = c.outbox_id AND a.attempt_no = c.attempt_no
),
amounts AS (
  SELECT d.outbox_id, CASE WHEN w.payload ->> 'amount' ~ '^[0-9]{1,30}([.][0-9]{1,10})?$' THEN (w.payload ->> 'amount')::numeric END AS amount,
    left(w.payload ->> 'currency', 20) AS currency
  FROM {cell}.payment_dead_letters d
  JOIN (
    SELECT a.outbox_id, a.payload FROM {cell}.v_outbox_attempts a
    UNION ALL
    SELECT p.outbox_id, p.payload FROM {cell}.v_outbox_pending p) w ON w.outbox_id = d.outbox_id
  WHERE d.status NOT IN ('manual_replay', 'resolved')
),
misstated AS (
  SELECT d.outbox_id
  FROM {cell}.payment_dead_letters d
  JOIN amounts w ON w.outbox_id = d.outbox_id
  GROUP BY d.outbox_id
  HAVING d.amount IS NOT NULL AND bool_or(w.amount = d.amount) IS FALSE
    OR d.currency IS NOT NULL AND bool_or(w.currency = d.currency) IS FALSE
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
    d.outbox_id IS NOT NULL AS letter, d.reason, d.instruction_id AS named_instruction, d.participant_id AS named_participant,
    d.rail_type AS named_rail, coalesce(r.rail, p.rail_type, d.rail_type) AS rail, x.outbox_id IS NOT NULL AS misstated, coalesce(d.status NOT IN ('manual_replay', 'resolved'), false) AS open_letter,
    -- The act is younger than the letter and the failure. The clocks of two servers may differ by a minute.
    coalesce(o.closed_at >= greatest(d.opened_at, r.failed_at) - interval '1 minute', false) AS closed_by_act,
    coalesce(o.triaged_at > r.unpaid_at AND (o.proved_at > o.triaged_at) IS NOT TRUE, false) AS reopened,
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
  LEFT JOIN misstated x ON x.outbox_id = i.outbox_id
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
SELECT CASE WHEN NOT c.there AND NOT gone.retired
    THEN format('%s: row %s contradicted what was said before, and is not in the archive', c.outbox_id, c.attempt_no)
  WHEN NOT k.open_letter
    THEN format('%s: row %s contradicts what was said before, there is no open dead letter, and the log has no act of an operator that settled it',
      c.outbox_id, c.attempt_no)
  ELSE format('%s: row %s contradicts what was said before, and its open dead letter says %s', c.outbox_id, c.attempt_no, k.reason) END
FROM conflicts c
JOIN known k ON k.outbox_id = c.outbox_id
CROSS JOIN LATERAL (SELECT coalesce(c.outbox_id < h.id, false) AS retired FROM horizon h) gone
WHERE NOT c.there AND NOT gone.retired OR NOT c.settled AND (NOT k.open_letter OR k.reason <> 'CONFLICT')
UNION ALL
-- By the letter an operator decides whether it is paid again.
SELECT CASE WHEN k.state IS NULL THEN format('%s: its open dead letter says %s, and it has no row', k.outbox_id, k.reason)
  ELSE format('%s: its open dead letter says %s, and its last row, %s, is %s', k.outbox_id, k.reason, k.attempt_no, k.state) END
FROM known k
WHERE k.open_letter AND CASE WHEN k.state IS NULL THEN k.reason IN ({unpaid_reasons}) AND NOT k.retired
  ELSE k.reason IN ({unpaid_reasons}) AND k.state <> 'FAILED' OR k.reason = 'OUTCOME_UNKNOWN' AND k.state IN ({ended_states}) END
UNION ALL
SELECT format('%s: its open dead letter says %s, and an operator closed it after its last failure', k.outbox_id, k.reason)
FROM known k
WHERE k.open_letter AND k.reopened AND k.reason IN ({unpaid_reasons})
UNION ALL
SELECT format('%s: its open dead letter has an amount that none of its payloads has', k.outbox_id)
FROM known k
WHERE k.misstated
UNION ALL
SELECT format('%s: its open dead letter is of instruction %s of %s on rail %s; it is instruction %s of %s on rail %s', k.outbox_id,
  k.named_instruction, k.named_participant, k.named_rail, k.instruction_id, k.participant_id, k.rail)
FROM known k
WHERE k.open_letter AND k.registered
  AND (k.named_instruction, k.named_participant, k.named_rail) IS DISTINCT FROM (k.instruction_id, k.participant_id, k.rail)
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
