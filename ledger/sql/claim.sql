-- Claims due instructions: takes them out of pending and appends their claim
-- rows, in one statement. A crash before the commit leaves everything pending;
-- after it, the claims row leads the reaper to what was not answered.
--
-- $1 rail_type[], $2 free[], $3 oldest[], $4 profile_version[], $5 render_version[],
-- $6 worker_id, $7 claim_id (made by the caller), $8 outbox_id[] to claim and no others; null: any
--
-- The due test uses statement_timestamp(), which can be an index condition;
-- clock_timestamp(), which can't, only stamps. = ANY (ARRAY(...)) keeps the
-- delete an index scan whatever the statistics say; a join would not.
WITH lane AS MATERIALIZED (
  SELECT l.rail_type, l.free, l.oldest, l.profile_version, l.render_version
  FROM unnest($1::text[], $2::integer[], $3::integer[], $4::integer[], $5::text[])
    AS l(rail_type, free, oldest, profile_version, render_version)
  WHERE NOT EXISTS (
    SELECT FROM {cell}.payment_rails r WHERE r.paused AND r.rail_type IN ('*', l.rail_type))
),
longest AS MATERIALIZED (
  SELECT l.rail_type, l.free, x.outbox_id, 0 AS part, x.next_attempt_at
  FROM lane l
  CROSS JOIN LATERAL (
    SELECT p.outbox_id, p.next_attempt_at
    FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS level(priority)
    CROSS JOIN LATERAL (
      SELECT q.outbox_id, q.next_attempt_at
      FROM {cell}.payment_outbox_pending q
      WHERE q.rail_type = l.rail_type AND q.priority = level.priority
        AND q.next_attempt_at <= statement_timestamp()
        AND (q.outcome_unknown OR q.expires_at IS NULL OR q.expires_at > statement_timestamp())
        AND q.participant_id <> ALL (ARRAY(SELECT h.participant_id FROM {cell}.payment_paused_participants h))
        AND ($8::uuid[] IS NULL OR q.outbox_id = ANY ($8::uuid[]))
      ORDER BY q.next_attempt_at, q.outbox_id
      LIMIT l.oldest
      FOR UPDATE SKIP LOCKED) p
    ORDER BY p.next_attempt_at, p.outbox_id
    LIMIT l.oldest) x
),
urgent AS MATERIALIZED (
  SELECT l.rail_type, l.free, x.outbox_id, 1 + x.priority AS part, x.next_attempt_at
  FROM lane l
  CROSS JOIN LATERAL (
    SELECT p.outbox_id, level.priority, p.next_attempt_at
    FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS level(priority)
    CROSS JOIN LATERAL (
      SELECT q.outbox_id, q.next_attempt_at
      FROM {cell}.payment_outbox_pending q
      WHERE q.rail_type = l.rail_type AND q.priority = level.priority
        AND q.next_attempt_at <= statement_timestamp()
        AND (q.outcome_unknown OR q.expires_at IS NULL OR q.expires_at > statement_timestamp())
        AND q.participant_id <> ALL (ARRAY(SELECT h.participant_id FROM {cell}.payment_paused_participants h))
        AND ($8::uuid[] IS NULL OR q.outbox_id = ANY ($8::uuid[]))
      ORDER BY q.next_attempt_at, q.outbox_id
      LIMIT l.free
      FOR UPDATE SKIP LOCKED) p
    LIMIT l.free) x
),
ranked AS (
  SELECT u.outbox_id, u.free,
    row_number() OVER (PARTITION BY u.rail_type ORDER BY u.part, u.next_attempt_at, u.outbox_id) AS place
  FROM (
    SELECT DISTINCT ON (b.outbox_id) b.outbox_id, b.rail_type, b.free, b.part, b.next_attempt_at
    FROM (SELECT * FROM longest UNION ALL SELECT * FROM urgent) b
    ORDER BY b.outbox_id, b.part) u
),
gone AS (
  DELETE FROM {cell}.payment_outbox_pending p
  WHERE p.outbox_id = ANY (ARRAY(SELECT r.outbox_id FROM ranked r WHERE r.place <= r.free))
  RETURNING p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type, p.payload,
    p.attempt_count, p.next_attempt_at, p.created_at, p.priority, p.expires_at, p.headers, p.next_action,
    p.outcome_unknown, p.provisional, p.first_sent_at, p.last_sent_at, p.send_count, p.inquiry_count, p.render_version
),
claimed AS (
  INSERT INTO {cell}.payment_outbox_attempts AS a
    (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type,
     attempt_no, state, claimed_at, worker_id, profile_version, render_version, outcome_unknown, provisional,
     payload, headers, priority, expires_at, enqueued_at, next_attempt_at, next_action,
     first_sent_at, last_sent_at, send_count, inquiry_count)
  SELECT gen_random_uuid(), g.outbox_id, g.instruction_id, g.participant_id, g.sequence_id, g.idempotency_key, g.rail_type,
    -- The archive is as old as this snapshot, the locked row is not: whoever
    -- appended for it since has raised attempt_count under that lock.
    greatest(g.attempt_count, (SELECT max(t.attempt_no) FROM {cell}.payment_outbox_attempts t WHERE t.outbox_id = g.outbox_id)) + 1,
    (CASE g.next_action WHEN 'INQUIRE' THEN 'INQUIRING' ELSE 'DISPATCHING' END)::{cell}.outbox_attempt_state,
    (SELECT clock_timestamp()), $6, l.profile_version,
    CASE g.next_action WHEN 'INQUIRE' THEN g.render_version ELSE coalesce(g.render_version, l.render_version) END,
    g.outcome_unknown, g.provisional,
    g.payload, g.headers, g.priority, g.expires_at, g.created_at, g.next_attempt_at, g.next_action,
    g.first_sent_at, g.last_sent_at, g.send_count, g.inquiry_count
  FROM gone g
  JOIN lane l ON l.rail_type = g.rail_type
  ORDER BY g.outbox_id
  RETURNING a.outbox_id, a.attempt_no, a.instruction_id, a.participant_id, a.sequence_id, a.idempotency_key, a.rail_type,
    a.payload, a.headers, a.priority, a.expires_at, a.enqueued_at, a.claimed_at, a.next_action, a.render_version,
    a.outcome_unknown, a.provisional, a.first_sent_at, a.last_sent_at, a.send_count, a.inquiry_count
),
in_flight AS (
  INSERT INTO {cell}.payment_outbox_claims (claim_id, worker_id, claimed_at, outbox_ids, attempt_nos)
  SELECT $7::uuid, $6, min(c.claimed_at), array_agg(c.outbox_id), array_agg(c.attempt_no)
  FROM claimed c
  HAVING count(*) > 0
)
SELECT $7::uuid AS claim_id, c.outbox_id, c.attempt_no, c.next_action, c.instruction_id, c.participant_id, c.sequence_id,
  c.idempotency_key, c.rail_type, c.payload::text, c.headers::text,
  (SELECT k.fingerprint FROM {cell}.payment_outbox_keys k WHERE k.outbox_id = c.outbox_id) AS fingerprint,
  c.priority, c.enqueued_at, c.claimed_at, c.expires_at, c.first_sent_at, c.last_sent_at,
  c.outcome_unknown, c.provisional, c.send_count, c.inquiry_count, c.render_version
FROM claimed c
