-- An instruction, and its state in one word. One that is not in the registry was never enqueued;
-- its identity is then taken from its rows. $1 outbox_id
SELECT k.instruction_id, k.idempotency_key, k.participant_id, k.sequence_id, k.rail_key, k.enqueued_by, k.created_at,
  (extract(epoch FROM clock_timestamp() - k.created_at) * 1000)::bigint AS age_ms, clock_timestamp() AS now,
  coalesce(v.rail_type, k.rail_type) AS rail_type, coalesce(v.state, k.state) AS state,
  k.rail_key IS NULL AS never_enqueued, coalesce(g.asks, false) AS rail_asks, coalesce(g.new_id, true) AS new_id,
  c.amount, c.currency, c.traceparent, c.priority, c.expires_at,
  coalesce((SELECT i.send_once FROM {cell}.payment_outbox_instructions i WHERE i.outbox_id = $1), false) AS send_once,
  (SELECT s.opened_at FROM {cell}.payment_outbox_suspensions s WHERE s.accepted_at IS NULL) AS suspended_at,
  NOT {cell}.server_is_settled() AS unsettled,
  CASE WHEN k.rail_key IS NOT NULL THEN {cell}.repeats_forgotten_call(k.created_at) END AS repeats_since,
  o.other_id, o.cell AS other_cell,
  w.has_payload IS NULL AS no_payload, w.other_payload,
  h.what, h.paused_by, h.paused_at, h.pause_reason, h.paused_until,
  -- As in left_the_archive, and an id of a time long before its enqueue was changed.
  k.rail_key IS NOT NULL AND EXISTS (
    SELECT FROM pg_catalog.pg_partitioned_table t
    WHERE t.partrelid = '{cell}.payment_outbox_attempts'::regclass AND t.partdefid <> 0)
  AND NOT coalesce($1 < (
      SELECT min(substring(pg_get_expr(c.relpartbound, c.oid) FROM 'FROM [(]''([0-9a-f-]{36})''[)]'))::uuid
      FROM pg_catalog.pg_inherits i
      JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
      WHERE i.inhparent = '{cell}.payment_outbox_attempts'::regclass)
    AND to_timestamp(('x' || substr(replace($1::text, '-', ''), 1, 12))::bit(48)::bigint / 1000.0) >= k.created_at - interval '1 day', false) AS is_attached
FROM (
  (SELECT i.instruction_id, i.idempotency_key, i.participant_id, i.sequence_id, i.rail_key, i.enqueued_by, i.created_at,
     NULL::text AS rail_type, NULL::text AS state
   FROM {cell}.payment_outbox_keys i
   WHERE i.outbox_id = $1)
  UNION ALL
  (SELECT coalesce(p.instruction_id, ''), coalesce(p.idempotency_key, ''), p.participant_id, coalesce(p.sequence_id, 0),
    NULL, NULL, p.created_at, p.rail_type,
     CASE WHEN p.provisional THEN 'ACCEPTED' WHEN p.outcome_unknown THEN 'UNKNOWN' ELSE 'PENDING' END
   FROM {cell}.payment_outbox_pending p
   WHERE p.outbox_id = $1)
  UNION ALL
  (SELECT coalesce(a.instruction_id, ''), coalesce(a.idempotency_key, ''), coalesce(a.participant_id, ''),
    coalesce(a.sequence_id, 0), NULL, NULL, a.created_at, a.rail_type, a.state::text
   FROM {cell}.payment_outbox_attempts a
   WHERE a.outbox_id = $1 AND a.state <> 'LATE_OUTCOME'
   ORDER BY a.attempt_no DESC
   LIMIT 1)
  UNION ALL
  (SELECT d.instruction_id, '', d.participant_id, 0, NULL, NULL, d.opened_at, d.rail_type, NULL
   FROM {cell}.payment_dead_letters d
   WHERE d.outbox_id = $1)
  LIMIT 1) k
LEFT JOIN LATERAL (
  SELECT s.rail_type, s.state
  FROM {cell}.supervisor_outbox_status s
  WHERE s.outbox_id = $1
  LIMIT 1) v ON true
LEFT JOIN LATERAL (
  SELECT (q.profile #>> '{inquiry,max}')::integer > 0 AS asks,
    q.profile ->> 'id_after_refusal' IS DISTINCT FROM 'SAME' AS new_id
  FROM {cell}.payment_rails r
  JOIN {cell}.payment_rail_profiles q ON q.rail_type = r.rail_type AND q.version = r.profile_version
  WHERE r.rail_type = coalesce(v.rail_type, k.rail_type)
  LIMIT 1) g ON true
LEFT JOIN LATERAL (
  (SELECT p.amount, p.currency, p.traceparent, p.priority, p.expires_at
   FROM {cell}.v_outbox_pending p
   WHERE p.outbox_id = $1)
  UNION ALL
  (SELECT a.amount, a.currency, a.traceparent, a.priority, a.expires_at
   FROM {cell}.v_outbox_attempts a
   WHERE a.outbox_id = $1 AND a.has_payload
   ORDER BY a.attempt_no DESC
   LIMIT 1)
  LIMIT 1) c ON true
LEFT JOIN LATERAL (SELECT e.other_id, e.cell FROM {cell}.other_cell_key($1) e LIMIT 1) o ON true
-- What a replay would send.
LEFT JOIN LATERAL (
  SELECT a.has_payload, a.other_payload
  FROM {cell}.v_outbox_attempts a
  WHERE a.outbox_id = $1 AND a.has_payload
  ORDER BY a.attempt_no DESC
  LIMIT 1) w ON true
LEFT JOIN LATERAL (
  (SELECT CASE r.rail_type WHEN '*' THEN 'everything' ELSE 'rail ' || r.rail_type END AS what,
     r.paused_by, r.paused_at, r.pause_reason, r.paused_until
   FROM {cell}.payment_rails r
   WHERE r.paused AND r.rail_type IN ('*', coalesce(v.rail_type, k.rail_type))
   ORDER BY r.rail_type)
  UNION ALL
  (SELECT 'participant ' || q.participant_id, q.paused_by, q.paused_at, q.pause_reason, q.paused_until
   FROM {cell}.payment_paused_participants q
   WHERE q.participant_id = k.participant_id)
  LIMIT 1) h ON true
