-- Sends that were not allowed, of the instructions $1 <= outbox_id <= $2, by their rows and their orders. A claim
-- counts as sent if its own worker recorded an answer that shows that bytes left; one that was not followed by a send, or
-- that a report of the rail answered, is no violation. What a claim,
-- or the row in pending, says of the earlier sends must follow from their rows. It is not compared after a replay or an
-- inquiry that an operator asked for, until the next send, nor where late evidence spoke of the payment: these may
-- tell of sends without a row, or that one of the sends was not made. The same holds for the ends: an answer to one send, or
-- to an inquiry about several, may end a payment only if it covers each send by the profiles of the sends.
WITH rows AS (
  SELECT a.outbox_id, a.attempt_no, a.state::text AS state, coalesce(a.answers_attempt_no, 0) AS answers, coalesce(a.result, '') AS result,
    a.state = 'UNKNOWN' AND coalesce(a.answers_attempt_no, 0) = 0 AND a.error_code = 'ASKED' AS asked, a.claimed_at, a.outcome_unknown,
    a.provisional, a.first_sent_at, a.last_sent_at, a.send_count, a.render_version, a.rail_type, a.profile_version, a.worker_id, 0 AS attempt_count
  FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id >= $1 AND a.outbox_id <= $2
  UNION ALL
  SELECT p.outbox_id, 2147483647, 'PENDING', 0, '', false, NULL, p.outcome_unknown,
    p.provisional, p.first_sent_at, p.last_sent_at, p.send_count, p.render_version, p.rail_type, NULL, NULL, p.attempt_count
  FROM {cell}.payment_outbox_pending p
  WHERE p.outbox_id >= $1 AND p.outbox_id <= $2
),
whole AS (
  SELECT r.*, bool_or(r.state = 'LATE_OUTCOME') OVER o AS has_late, max(r.attempt_no) FILTER (WHERE r.state <> 'PENDING') OVER o AS newest
  FROM rows r
  WINDOW o AS (PARTITION BY r.outbox_id)
),
-- The answer to a claim is the next row. The reaper answers for a worker that was lost. A row in pending with a lower number
-- is a copy that was put back, and that no claim takes.
steps AS (
  SELECT w.*, coalesce(lead(w.answers) OVER o = w.attempt_no AND lead(w.attempt_no) OVER o - 1 = w.attempt_no
      AND (lead(w.worker_id) OVER o = w.worker_id OR lead(w.state) OVER o = 'ZOMBIE_REQUEUE'), false) AS answered, lead(w.state) OVER o AS answer, lead(w.result) OVER o AS said,
    count(*) FILTER (WHERE w.state = 'REPLAYED') OVER o AS replays,
    coalesce(f.profile ->> 'resend_on_unknown', 'NEVER') = 'SAME_KEY' AS same_key,
    coalesce((f.profile ->> 'key_window')::interval, interval '0') AS key_window, f.version IS NOT NULL AS known,
    -- By a profile that is not there, which is a violation itself, both hold.
    f.version IS NULL OR coalesce((f.profile ->> 'answer_covers_key')::boolean, false) AS covers,
    f.version IS NULL OR coalesce(f.profile ->> 'acceptance', 'FINAL') = 'FINAL' AS final,
    CASE WHEN lead(w.answers) OVER o = w.attempt_no AND lead(w.attempt_no) OVER o - 1 = w.attempt_no
      THEN format('%s by %s', lead(w.state) OVER o, lead(w.result) OVER o) END AS came
  FROM whole w
  LEFT JOIN {cell}.payment_rail_profiles f ON f.rail_type = w.rail_type AND f.version = w.profile_version
  WHERE w.state <> 'LATE_OUTCOME' AND (w.state <> 'PENDING' OR w.newest = w.attempt_count)
  WINDOW o AS (PARTITION BY w.outbox_id ORDER BY w.attempt_no)
),
marked AS (
  SELECT s.*, s.state = 'DISPATCHING' AND s.answered AND s.said IN ('ACCEPTED', 'EXECUTED', 'UNKNOWN', 'REFUSED_FINAL', 'REFUSED_TRANSIENT',
      'REFUSED_BUSINESS') AND s.answer <> 'ZOMBIE_REQUEUE' AS sent,
    s.state = 'DISPATCHING' AND s.answered AND s.answer IN ('UNKNOWN', 'ACCEPTED', 'ZOMBIE_REQUEUE') AS doubtful,
    s.state = 'DISPATCHING' AND s.answered AND (s.answer IN ('UNKNOWN', 'ACCEPTED', 'ZOMBIE_REQUEUE')
      OR s.said IN ('REFUSED_TRANSIENT', 'REFUSED_BUSINESS')) AS counts
  FROM steps s
),
-- Of each row, the sends since the last replay.
judged AS (
  SELECT m.*, count(*) FILTER (WHERE m.counts) OVER e AS n, count(*) FILTER (WHERE m.doubtful) OVER e AS doubts,
    m.has_late OR coalesce(bool_and(m.same_key OR NOT m.known) FILTER (WHERE m.doubtful) OVER e, true) AS kept_keys,
    coalesce(bool_and(m.covers) FILTER (WHERE m.doubtful) OVER e, true) AS all_cover,
    coalesce(bool_and(m.final) FILTER (WHERE m.doubtful) OVER e, true) AS all_final,
    min(m.key_window) FILTER (WHERE m.doubtful AND m.known AND NOT m.has_late) OVER e AS kept_for,
    array_agg(m.claimed_at) FILTER (WHERE m.counts) OVER e AS sent_at,
    array_agg(m.render_version) FILTER (WHERE m.counts) OVER e AS renderings,
    coalesce(bool_or(m.asked) OVER e, false) AS was_asked, coalesce(bool_or(m.counts AND m.answer = 'ACCEPTED') OVER e, false) AS taken,
    count(*) FILTER (WHERE m.state = 'DISPATCHING') OVER (PARTITION BY m.outbox_id ORDER BY m.attempt_no) AS claims
  FROM marked m
  WINDOW e AS (PARTITION BY m.outbox_id, m.replays ORDER BY m.attempt_no ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
held AS (
  SELECT j.*, CASE WHEN j.state = 'PENDING' THEN 'its row in pending' ELSE format('row %s', j.attempt_no) END AS holder,
    j.sent_at[1] AS first_at, j.sent_at[j.n] AS last_at, j.renderings[j.n] AS last_render,
    least(j.kept_for, CASE WHEN j.known THEN j.key_window END) AS window, i.not_before, i.expires_at, i.send_once
  FROM judged j
  LEFT JOIN {cell}.payment_outbox_instructions i ON i.outbox_id = j.outbox_id AND i.outbox_id >= $1 AND i.outbox_id <= $2
  WHERE j.state IN ('DISPATCHING', 'INQUIRING', 'PENDING')
)
SELECT 'seen' AS what, '' AS line, count(*) FILTER (WHERE h.state <> 'PENDING') AS n FROM held h
UNION ALL
SELECT 'offence', format('%s: %s was sent at or after its expires_at', h.outbox_id, h.holder), 1
FROM held h
WHERE h.sent AND h.claimed_at >= h.expires_at AND h.replays = 0
  AND (SELECT true FROM {cell}.payment_operator_log l WHERE l.outbox_id = h.outbox_id AND l.act = 'REPLAY' LIMIT 1) IS NULL
UNION ALL
SELECT 'offence', format('%s: %s is its first claim, and came before its not_before', h.outbox_id, h.holder), 1
FROM held h
WHERE h.state = 'DISPATCHING' AND h.claims = 1 AND h.claimed_at < h.not_before
  AND (
    SELECT true FROM {cell}.payment_operator_log l
    WHERE l.outbox_id = h.outbox_id AND l.act IN ('SEND_NOW', 'RESCHEDULE', 'REPLAY') LIMIT 1) IS NULL
UNION ALL
SELECT 'offence', format('%s: %s was sent again, and its caller allows one send', h.outbox_id, h.holder), 1
FROM held h
WHERE h.sent AND h.n > 0 AND h.send_once
UNION ALL
SELECT 'offence', format('%s: %s was sent again while the outcome was unknown, and its rail keeps no keys', h.outbox_id, h.holder), 1
FROM held h
WHERE h.sent AND h.outcome_unknown AND h.doubts > 0 AND NOT (h.kept_keys AND (h.same_key OR NOT h.known))
UNION ALL
-- An unknown outcome is sent again on such a rail only if the rail said before that it has no such payment.
SELECT 'offence', format('%s: row %s is REPLAYED while the outcome was unknown, its rail keeps no keys, and no answer before it says that the payment was not executed', j.outbox_id, j.attempt_no), 1
FROM judged j
WHERE j.state = 'REPLAYED' AND j.outcome_unknown AND j.known AND NOT j.same_key AND (
  SELECT a.result = 'NOT_FOUND' FROM {cell}.payment_outbox_attempts a
  WHERE a.outbox_id = j.outbox_id AND a.attempt_no < j.attempt_no AND a.answers_attempt_no IS NOT NULL AND a.state <> 'LATE_OUTCOME'
  ORDER BY a.attempt_no DESC LIMIT 1) IS NOT TRUE
UNION ALL
SELECT 'offence', format('%s: %s was sent again while the outcome was unknown, after the key window', h.outbox_id, h.holder), 1
FROM held h
WHERE h.sent AND h.outcome_unknown AND h.doubts > 0 AND h.kept_keys AND h.same_key
  AND h.claimed_at - CASE WHEN h.has_late THEN h.first_sent_at ELSE h.first_at END >= h.window - least(h.window / 10, interval '5 minutes')
UNION ALL
SELECT 'offence', format('%s: %s says of the earlier sends what their rows do not', h.outbox_id, h.holder), 1
FROM held h
WHERE h.n > 0 AND NOT h.has_late AND NOT h.was_asked AND NOT (
  coalesce(h.first_sent_at <= h.first_at, false) AND coalesce(h.last_sent_at >= h.last_at, false) AND coalesce(h.send_count >= h.n, false)
  AND (h.provisional OR NOT h.taken) AND (h.last_render IS NULL OR coalesce(h.render_version = h.last_render, false)))
UNION ALL
SELECT 'offence', format('%s: %s names profile %s of %s, which is not there', h.outbox_id, h.holder, coalesce(h.profile_version::text, '(none)'), h.rail_type), 1
FROM held h
WHERE h.state <> 'PENDING' AND NOT h.known
UNION ALL
SELECT 'offence', format('%s: %s was accepted, which ended it as DISPATCHED, and by the profiles of its sends an acceptance is not final', h.outbox_id, h.holder), 1
FROM held h
WHERE h.came = 'DISPATCHED by ACCEPTED' AND NOT (h.final AND (h.all_final OR h.has_late))
UNION ALL
SELECT 'offence', format('%s: %s was refused, which ended it as FAILED, and nothing shows that an earlier send was not executed', h.outbox_id, h.holder), 1
FROM held h
WHERE h.state = 'DISPATCHING' AND h.came = 'FAILED by REFUSED_FINAL' AND h.outcome_unknown AND h.doubts > 0 AND NOT h.has_late
  AND NOT (h.covers AND h.all_cover AND NOT h.taken)
UNION ALL
-- An inquiry, or a report of the rail, may be about any of the sends.
SELECT 'offence', format('%s: a refusal answered %s and ended it as FAILED, and nothing shows of which of its %s sends it is', h.outbox_id, h.holder, x.sends), 1
FROM held h
CROSS JOIN LATERAL (SELECT h.n + CASE WHEN h.state = 'DISPATCHING' THEN 1 ELSE 0 END AS sends) x
WHERE h.came = 'FAILED by REFUSED' AND x.sends > 1 AND NOT h.has_late AND NOT h.was_asked
  AND NOT (h.all_cover AND (h.covers OR h.state = 'INQUIRING'))
