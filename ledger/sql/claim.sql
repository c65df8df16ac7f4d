-- Claims due instructions: deletes them from pending and appends their claim rows, in one
-- statement. After a crash before the commit, everything is still pending; after a crash behind it,
-- the reaper finds the unanswered claims by the row of payment_outbox_claims.
--
-- $1 rail_type[], $2 free[], $3 oldest[], $4 profile_version[], $5 render_version[],
-- $6 worker_id, $7 claim_id (chosen by the caller), $8 outbox_id[] to claim exclusively; null: any
-- $9 fair[]: the part of free for participants that are not throttled, who come before those that are
-- $10 to $12 since[] by priority: where the scan for them starts
-- $13 to $15 behind[] by priority: where the scans for the throttled participants and for the longest due rows start
-- $16 rail_type[] and $17 participant_id[]: the participants that are throttled in each lane
-- $18 goes_on[]: whether the lane is claimed while a suspension is open
--
-- The lines that begin with two dashes and "ordered:" are comments here. They are part of
-- claim_ordered, which is this statement for lanes that order participants: it claims their heads,
-- and scans for those of the other participants.
-- $19 strict[] by lane, $20 rail_type[] and $21 participant_id[]: those for whom the opposite holds
-- $22 heads[]: how many heads of lines a lane may claim
-- $23 to $25 ready[] by priority: where the scan for heads starts; before it are entries of heads that were claimed
-- $26 rail_type[] and $27 participant_id[] of the lines that this turn may have moved on: next_in_order has left the
-- heads of some to this claim
--
-- The fingerprint covers participant, rail and payload. Participant and rail are taken from the
-- pending row, and so is the payload of an older row that has one. Instruction id, number,
-- idempotency key and rail key are taken from the registry.
--
-- A lane claims nothing from rows that were not accepted. The guard of a relayer looks at the server every few seconds,
-- and a dump may be loaded, or a copied database put in the place of this one, between two looks. So a lane goes on
-- only while a suspension of this start of the server is open: a dump that is loaded meanwhile may not have the one by
-- which it was judged, or may bring one that was open when it was made. One of another start is taken over soon.
--
-- A lane claims nothing under a profile version other than the one in force: the rules about proof
-- and re-sends that its worker applies have changed.
--
-- The due test uses statement_timestamp(), which can be an index condition; clock_timestamp(),
-- which can't, is only used for the time of the claim. The lower bound of the scan is the claimer's
-- watermark: before it are rows that were claimed and that vacuum can't remove yet. A row that is
-- committed late before the watermark is found by the next full rescan, which has no lower bound
-- (see package schedule). = ANY (ARRAY(...)) makes the delete a TID scan whatever the statistics
-- are; a join would not. A ctid is that of the row version in this statement's snapshot: a row that
-- another session has changed since has another ctid, and is left to the next claim.
WITH lane AS MATERIALIZED (
  SELECT l.rail_type, l.free, l.oldest, l.profile_version, l.render_version, l.fair,
    l.since_0, l.since_1, l.since_2, l.behind_0, l.behind_1, l.behind_2,
    ARRAY(
      SELECT f.participant_id
      FROM unnest($16::text[], $17::text[]) AS f(rail_type, participant_id)
      WHERE f.rail_type = l.rail_type) AS apart
  FROM unnest($1::text[], $2::integer[], $3::integer[], $4::integer[], $5::text[], $9::integer[],
      $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::timestamptz[], $14::timestamptz[],
        $15::timestamptz[], $18::boolean[])
    AS l(rail_type, free, oldest, profile_version, render_version, fair, since_0, since_1, since_2, behind_0, behind_1,
      behind_2, goes_on)
  WHERE NOT EXISTS (
    SELECT FROM {cell}.payment_rails r
    WHERE r.rail_type IN ('*', l.rail_type) AND (r.paused OR r.profile_version <> l.profile_version))
    AND CASE (
        SELECT s.server_started_at = pg_postmaster_start_time()
        FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL)
      WHEN true THEN l.goes_on
      WHEN false THEN false
      ELSE (SELECT {cell}.rows_are_accepted()) END
),
--ordered: line AS MATERIALIZED (
--ordered:   SELECT o.rail_type, o.strict, o.heads, o.ready_0, o.ready_1, o.ready_2, x.others,
--ordered:     NOT o.strict OR x.others <> '{}' AS scanned
--ordered:   FROM unnest($1::text[], $19::boolean[], $22::integer[], $23::timestamptz[], $24::timestamptz[],
--ordered:       $25::timestamptz[])
--ordered:     AS o(rail_type, strict, heads, ready_0, ready_1, ready_2)
--ordered:   CROSS JOIN LATERAL (
--ordered:     SELECT ARRAY(
--ordered:       SELECT e.participant_id FROM unnest($20::text[], $21::text[]) AS e(rail_type, participant_id)
--ordered:       WHERE e.rail_type = o.rail_type) AS others) x
--ordered: ),
--ordered: -- No other session sees these lines as they are before this turn is committed.
--ordered: moved AS MATERIALIZED (
--ordered:   SELECT t.rail_type, t.participant_id, h.line, h.head, h.priority
--ordered:   FROM unnest($26::text[] COLLATE "C", $27::text[] COLLATE "C") AS t(rail_type, participant_id)
--ordered:   CROSS JOIN LATERAL (
--ordered:     SELECT h.ctid AS line, h.head, h.priority FROM {cell}.payment_order_lines h
--ordered:     WHERE h.rail_type = t.rail_type AND h.participant_id = t.participant_id AND h.claim_id = $7::uuid
--ordered:       AND h.ready_at IS NULL
--ordered:     LIMIT 1) h
--ordered: ),
--ordered: -- The head of a line is the only row of its participant that is claimed. The line's lock excludes
--ordered: -- that another session advances it meanwhile, and by the row's own fields it is still due. A mark of
--ordered: -- the line is of something that the head was not found by: what the snapshot shows goes first.
--ordered: heads AS MATERIALIZED (
--ordered:   SELECT l.rail_type, x.place, x.line, x.moved
--ordered:   FROM lane l
--ordered:   JOIN line o ON o.rail_type = l.rail_type
--ordered:   CROSS JOIN LATERAL (
--ordered:     SELECT p.place, p.line, p.moved
--ordered:     FROM (
--ordered:       SELECT w.place, w.line, false AS moved, level.priority, w.ready_at
--ordered:       FROM (VALUES (0::smallint, o.ready_0), (1::smallint, o.ready_1), (2::smallint, o.ready_2))
--ordered:         AS level(priority, since)
--ordered:       CROSS JOIN LATERAL (
--ordered:         SELECT q.place, h.ctid AS line, h.ready_at
--ordered:         FROM {cell}.payment_order_lines h
--ordered:         CROSS JOIN LATERAL (
--ordered:           -- LIMIT keeps it a probe, whatever the statistics are.
--ordered:           SELECT p.ctid AS place, p.outbox_id FROM {cell}.payment_outbox_pending p
--ordered:           WHERE p.outbox_id = h.head AND p.rail_type = l.rail_type AND p.next_attempt_at <= statement_timestamp()
--ordered:             AND (p.outcome_unknown OR p.expires_at IS NULL OR p.expires_at > statement_timestamp())
--ordered:             AND p.participant_id <> ALL (ARRAY(SELECT g.participant_id FROM {cell}.payment_paused_participants g))
--ordered:             AND ($8::uuid[] IS NULL OR p.outbox_id = ANY ($8::uuid[]))
--ordered:           LIMIT 1
--ordered:           FOR UPDATE SKIP LOCKED) q
--ordered:         WHERE h.rail_type = l.rail_type AND h.priority = level.priority
--ordered:           AND h.ready_at >= level.since AND h.ready_at <= statement_timestamp()
--ordered:           AND (h.participant_id = ANY (o.others)) <> o.strict
--ordered:           -- LIMIT keeps it a probe here too.
--ordered:           AND (
--ordered:             SELECT true FROM {cell}.payment_order_marks m
--ordered:             WHERE m.rail_type = h.rail_type AND m.participant_id = h.participant_id LIMIT 1) IS NULL
--ordered:           -- Tested once more if the line has changed since the snapshot, which the probe is not.
--ordered:           AND h.head = q.outbox_id
--ordered:         ORDER BY h.ready_at
--ordered:         LIMIT o.heads
--ordered:         FOR UPDATE OF h SKIP LOCKED) w
--ordered:       UNION ALL
--ordered:       -- They are ready since now: those that have waited go before them.
--ordered:       SELECT w.place, w.line, true, w.priority, statement_timestamp()
--ordered:       FROM (
--ordered:         SELECT q.place, v.line, v.priority
--ordered:         FROM moved v
--ordered:         CROSS JOIN LATERAL (
--ordered:           SELECT p.ctid AS place FROM {cell}.payment_outbox_pending p
--ordered:           WHERE p.outbox_id = v.head AND p.rail_type = l.rail_type AND p.next_attempt_at <= statement_timestamp()
--ordered:             AND (p.outcome_unknown OR p.expires_at IS NULL OR p.expires_at > statement_timestamp())
--ordered:             AND p.participant_id <> ALL (ARRAY(SELECT g.participant_id FROM {cell}.payment_paused_participants g))
--ordered:             AND ($8::uuid[] IS NULL OR p.outbox_id = ANY ($8::uuid[]))
--ordered:           LIMIT 1
--ordered:           FOR UPDATE SKIP LOCKED) q
--ordered:         WHERE v.rail_type = l.rail_type
--ordered:           AND (v.participant_id = ANY (o.others)) <> o.strict
--ordered:           AND (
--ordered:             SELECT true FROM {cell}.payment_order_marks m
--ordered:             WHERE m.rail_type = v.rail_type AND m.participant_id = v.participant_id LIMIT 1) IS NULL) w) p
--ordered:     ORDER BY CASE WHEN l.oldest > 0 THEN 0 ELSE p.priority END, p.ready_at
--ordered:     LIMIT o.heads) x
--ordered: ),
--ordered: taken AS (
--ordered:   UPDATE {cell}.payment_order_lines h SET ready_at = NULL
--ordered:   WHERE h.ctid = ANY (ARRAY(SELECT g.line FROM heads g WHERE NOT g.moved))
--ordered: ),
--ordered: left_over AS (
--ordered:   UPDATE {cell}.payment_order_lines h SET ready_at = statement_timestamp()
--ordered:   WHERE h.ctid = ANY (ARRAY(SELECT v.line FROM moved v WHERE v.line NOT IN (SELECT g.line FROM heads g)))
--ordered: ),
longest AS MATERIALIZED (
  SELECT l.rail_type, x.place
  FROM lane l
--ordered:   JOIN line o ON o.rail_type = l.rail_type AND o.scanned
  CROSS JOIN LATERAL (
    SELECT p.place
    FROM (VALUES (0::smallint, l.behind_0), (1::smallint, l.behind_1), (2::smallint, l.behind_2))
      AS level(priority, since)
    CROSS JOIN LATERAL (
      SELECT q.ctid AS place, q.next_attempt_at
      FROM {cell}.payment_outbox_pending q
      WHERE q.rail_type = l.rail_type AND q.priority = level.priority
        AND q.next_attempt_at >= level.since AND q.next_attempt_at <= statement_timestamp()
        AND (q.outcome_unknown OR q.expires_at IS NULL OR q.expires_at > statement_timestamp())
        AND q.participant_id <> ALL (ARRAY(SELECT h.participant_id FROM {cell}.payment_paused_participants h))
        AND ($8::uuid[] IS NULL OR q.outbox_id = ANY ($8::uuid[]))
--ordered:         AND (q.participant_id = ANY (o.others)) = o.strict
      ORDER BY q.next_attempt_at
      LIMIT l.oldest
      FOR UPDATE SKIP LOCKED) p
    ORDER BY p.next_attempt_at
    LIMIT l.oldest
--ordered:       - greatest((SELECT count(*) FROM heads g WHERE g.rail_type = l.rail_type) + l.oldest - l.free, 0)
    ) x
  WHERE l.oldest > 0
),
urgent AS MATERIALIZED (
  SELECT x.place
  FROM lane l
--ordered:   JOIN line o ON o.rail_type = l.rail_type AND o.scanned
  CROSS JOIN LATERAL (
    SELECT p.place
    FROM (VALUES
        (0::smallint, false, l.since_0, l.fair), (0::smallint, true, l.behind_0, l.free),
        (1::smallint, false, l.since_1, l.fair), (1::smallint, true, l.behind_1, l.free),
        (2::smallint, false, l.since_2, l.fair), (2::smallint, true, l.behind_2, l.free))
      AS part(priority, apart, since, most)
    CROSS JOIN LATERAL (
      SELECT q.ctid AS place
      FROM {cell}.payment_outbox_pending q
      WHERE q.rail_type = l.rail_type AND q.priority = part.priority
        AND q.next_attempt_at >= part.since AND q.next_attempt_at <= statement_timestamp()
        AND (q.outcome_unknown OR q.expires_at IS NULL OR q.expires_at > statement_timestamp())
        AND (q.participant_id = ANY (l.apart)) = part.apart
        AND q.participant_id <> ALL (ARRAY(SELECT h.participant_id FROM {cell}.payment_paused_participants h))
        AND ($8::uuid[] IS NULL OR q.outbox_id = ANY ($8::uuid[]))
        AND q.ctid <> ALL (ARRAY(SELECT g.place FROM longest g))
--ordered:         AND (q.participant_id = ANY (o.others)) = o.strict
      ORDER BY q.next_attempt_at
      LIMIT part.most
      FOR UPDATE SKIP LOCKED) p
    WHERE NOT part.apart OR l.apart <> '{}'
    LIMIT l.free - (SELECT count(*) FROM longest g WHERE g.rail_type = l.rail_type)
--ordered:       - (SELECT count(*) FROM heads g WHERE g.rail_type = l.rail_type)
    ) x
),
gone AS (
  DELETE FROM {cell}.payment_outbox_pending p
  WHERE p.ctid = ANY (ARRAY(SELECT g.place FROM longest g UNION ALL SELECT u.place FROM urgent u))
--ordered:     OR p.ctid = ANY (ARRAY(SELECT g.place FROM heads g))
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
  SELECT gen_random_uuid(), g.outbox_id, g.instruction_id, g.participant_id, g.sequence_id, g.idempotency_key,
    g.rail_type,
    -- attempt_count is a cache, which each append for a pending row raises under its lock. A row
    -- that was put back (put_back_after) fails the claim: it counts fewer rows than there are, or
    -- the instruction can't be pending. A row that never left pending gets number 1, which the
    -- fencing constraint refuses if it did.
    CASE WHEN g.attempt_count = 0 AND g.send_count = 0 AND g.inquiry_count = 0 AND g.first_sent_at IS NULL THEN 1
      WHEN (
        SELECT t.attempt_no > g.attempt_count
          OR CASE t.state WHEN 'LATE_OUTCOME' THEN {cell}.put_back_after(g.outbox_id) IS NOT NULL
            ELSE t.state NOT IN ({waiting_states}) END
        FROM {cell}.payment_outbox_attempts t
        WHERE t.outbox_id = g.outbox_id
        ORDER BY t.attempt_no DESC
        LIMIT 1)
      THEN {cell}.refuse_put_back(g.outbox_id)
      ELSE g.attempt_count + 1
    END,
    (CASE g.next_action WHEN 'INQUIRE' THEN 'INQUIRING' ELSE 'DISPATCHING' END)::{cell}.outbox_attempt_state,
    (SELECT clock_timestamp()), $6, l.profile_version,
    CASE g.next_action WHEN 'INQUIRE' THEN g.render_version ELSE coalesce(g.render_version, l.render_version) END,
    g.outcome_unknown, g.provisional,
    g.payload, g.headers, g.priority, g.expires_at, g.created_at, g.next_attempt_at, g.next_action,
    g.first_sent_at, g.last_sent_at, g.send_count, g.inquiry_count
  FROM gone g
  JOIN lane l ON l.rail_type = g.rail_type
  ORDER BY g.outbox_id
  RETURNING a.outbox_id, a.attempt_no, a.instruction_id, a.participant_id, a.sequence_id, a.idempotency_key,
    a.rail_type, a.payload, a.headers, a.priority, a.expires_at, a.enqueued_at, a.claimed_at, a.next_action,
    a.render_version, a.outcome_unknown, a.provisional, a.first_sent_at, a.last_sent_at, a.send_count, a.inquiry_count,
    a.next_attempt_at
),
in_flight AS (
  INSERT INTO {cell}.payment_outbox_claims (claim_id, worker_id, claimed_at, outbox_ids, attempt_nos)
  SELECT $7::uuid, $6, min(c.claimed_at), array_agg(c.outbox_id), array_agg(c.attempt_no)
  FROM claimed c
  HAVING count(*) > 0
)
SELECT $7::uuid AS claim_id, c.outbox_id, c.attempt_no, c.next_action, coalesce(k.instruction_id, c.instruction_id, ''),
  c.participant_id, coalesce(k.sequence_id, c.sequence_id, 0), coalesce(k.idempotency_key, c.idempotency_key, ''),
    c.rail_type,
  coalesce(c.payload, i.payload, {cell}.refuse_without_payload(c.outbox_id))::text,
    coalesce(c.headers, i.headers, '{}')::text,
  k.fingerprint, k.rail_key,
  c.priority, c.enqueued_at, c.claimed_at, c.expires_at, c.first_sent_at, c.last_sent_at,
  c.outcome_unknown, c.provisional, c.send_count, c.inquiry_count, c.render_version,
  -- These are functions, so that a claim of sends alone does not open the tables that they read.
  CASE c.next_action WHEN 'INQUIRE' THEN {cell}.last_rail_reference(c.outbox_id) END AS rail_reference,
  CASE c.next_action WHEN 'INQUIRE' THEN {cell}.rail_has_seen(c.outbox_id) ELSE false END AS seen_before,
  CASE c.next_action WHEN 'INQUIRE' THEN {cell}.operator_asked(c.outbox_id, c.attempt_no) ELSE false END AS asked,
  CASE WHEN c.next_action = 'SEND' AND c.outcome_unknown THEN {cell}.just_replayed(c.outbox_id)
    ELSE false END AS replayed,
  CASE WHEN c.attempt_no > 1 THEN {cell}.rail_busy_since(c.outbox_id) END AS busy_since,
  CASE WHEN c.attempt_no > 1 THEN {cell}.rail_refusals(c.outbox_id, c.next_action) END AS rail_refusals,
  CASE WHEN c.first_sent_at IS NOT NULL OR c.outcome_unknown OR c.enqueued_at < (SELECT {cell}.forgotten_calls_until())
    THEN {cell}.rules_of_sends(c.outbox_id)::text END AS sent_under,
  coalesce(i.send_once, false) AS send_once,
  c.next_attempt_at
FROM claimed c
LEFT JOIN LATERAL (
  SELECT r.instruction_id, r.sequence_id, r.idempotency_key, r.fingerprint, r.rail_key
  FROM {cell}.payment_outbox_keys r WHERE r.outbox_id = c.outbox_id LIMIT 1) k ON true
LEFT JOIN LATERAL (
  SELECT o.payload, o.headers, o.send_once FROM {cell}.payment_outbox_instructions o WHERE o.outbox_id = c.outbox_id
    LIMIT 1) i ON true
